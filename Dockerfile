# The image of every machine of a deployment: docker build -t stagewise-hfl .
FROM python:3.11-slim
RUN useradd --uid 1000 --create-home stagewise
COPY pyproject.toml constraints.txt README.md LICENSE /build/
COPY src /build/src
RUN pip install --no-cache-dir --constraint /build/constraints.txt '/build[deploy]' && \
    rm -rf /build
USER stagewise
WORKDIR /site
CMD ["/site/run.sh"]
