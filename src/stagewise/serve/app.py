"""The application: routes, errors as one line of JSON, and the page."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from stagewise import __version__
from stagewise.errors import StagewiseError, one_line, shown
from stagewise.serve import event_routes, federation_routes, run_routes
from stagewise.serve.middleware import RequestMiddleware, retry_headers
from stagewise.serve.page_files import page_router
from stagewise.serve.refusals import MISTAKE, Refusal
from stagewise.serve.requests import gather_schemas, json_answer, service_of
from stagewise.serve.service import Service

_LOG = logging.getLogger("stagewise.serve")

DEFAULT_RATE = 5000.0
"""Requests a second of one caller."""


def make_app(
    service: Service, *, rate: float = DEFAULT_RATE, loopback_only: bool = False
) -> FastAPI:
    """The application around a service, whose workers run as long as it does."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.workers.start()
        yield
        service.close()

    app = FastAPI(
        title="Stagewise",
        version=__version__,
        summary="Who trains in each round of hierarchical federated learning, and at which edge.",
        lifespan=lifespan,
        docs_url=None,  # their pages fetch scripts from elsewhere
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.service = service
    app.state.stopping = lambda: False
    for routes in (federation_routes, run_routes, event_routes):
        app.include_router(routes.router)
    app.include_router(page_router)
    _add_state_routes(app)
    app.add_exception_handler(StagewiseError, _mistake)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(SQLAlchemyError, _store_error)
    app.add_exception_handler(Exception, _failure)
    plain = app.openapi
    app.openapi = lambda: gather_schemas(plain())  # type: ignore[method-assign]
    app.add_middleware(
        RequestMiddleware,
        access=service.access,
        metrics=service.metrics,
        traces=service.traces,
        rate=rate,
        loopback_only=loopback_only,
    )
    return app


def _add_state_routes(app: FastAPI) -> None:
    @app.get("/healthz", tags=["state"])
    async def healthz() -> Response:
        """Whether the process answers."""
        return json_answer({"status": "ok", "version": __version__})

    @app.get("/readyz", tags=["state"])
    def readyz(request: Request) -> Response:
        """Whether the store answers, too."""
        service_of(request).store.ready()
        return json_answer({"status": "ready"})

    @app.get("/metrics", tags=["state"])
    async def metrics(request: Request) -> Response:
        """Counters for Prometheus."""
        content = service_of(request).metrics.text()
        return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _mistake(request: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        headers = {name.decode(): value.decode() for name, value in retry_headers(error)}
        return json_answer({"error": str(error)}, error.status, headers)
    return json_answer({"error": one_line(str(error))}, MISTAKE)


async def _invalid(request: Request, error: Exception) -> Response:
    """A part of the address that breaks its rule."""
    assert isinstance(error, RequestValidationError)
    first: Any = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    rule = first["msg"][:1].lower() + first["msg"][1:]
    return json_answer(
        {"error": f"{field} = {shown(first.get('input'))}: {one_line(rule)}"}, MISTAKE
    )


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    what = f"{request.method} {one_line(request.url.path, 80)}: {error.detail}"
    return json_answer({"error": what}, error.status_code, headers)


async def _store_error(request: Request, error: Exception) -> Response:
    _LOG.error("store: %s", one_line(str(error)))
    return json_answer({"error": "store: does not answer"}, 503, {"Retry-After": "1"})


async def _failure(request: Request, error: Exception) -> Response:
    _LOG.error("request failed: %s: %s", type(error).__name__, one_line(str(error)))
    return json_answer({"error": "internal error; the log says what"}, 500)
