"""`stagewise serve`, and `stagewise token` for those who may use it from elsewhere."""

from importlib.util import find_spec
from typing import Annotated

import typer

from stagewise.cli.options import listed
from stagewise.errors import StagewiseError


def serve(
    host: Annotated[
        str, typer.Option(help="Address; any but loopback needs TLS and tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 is any that is free.")] = 8400,
    store: Annotated[
        str, typer.Option(help="File for SQLite, or postgresql://user@host/database.")
    ] = "stagewise.db",
    runs: Annotated[str, typer.Option(help="Folder whose runs are shown.")] = "runs",
    tls_cert: Annotated[str | None, typer.Option(help="Certificate, PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Its key, PEM.")] = None,
    tokens: Annotated[
        str | None, typer.Option(help="File of tokens: see `stagewise token`.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Requests a second that a caller may send.")] = 5000.0,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Log every request as a line of JSON.")
    ] = False,
    traces: Annotated[
        str | None,
        typer.Option(help="Collector that OpenTelemetry's spans are sent to (OTLP, HTTP)."),
    ] = None,
) -> None:
    """The planner as a service, with a page to watch runs and try things on."""
    for module in ("fastapi", "uvicorn", "sqlalchemy", "prometheus_client", "plotly"):
        if find_spec(module) is None:
            raise StagewiseError(f"serve needs {module}: pip install 'stagewise-hfl[serve]'")
    from stagewise.serve.server import ServerSettings
    from stagewise.serve.server import serve as run_server

    run_server(
        ServerSettings(
            host, port, store, runs, tls_cert, tls_key, tokens, rate, log_requests, traces
        )
    )


def token(
    name: Annotated[str, typer.Argument(help="What logs and errors call it.")],
    scope: Annotated[
        str, typer.Option(help="read, decide or admin; each includes those before it.")
    ] = "decide",
    federations: Annotated[
        str | None, typer.Option(help="Names with commas between them. Default: all, and runs.")
    ] = None,
) -> None:
    """Make a token, told once on standard error; what the server keeps of it is on standard output."""
    from stagewise.serve.access import new_token
    from stagewise.toml import toml_lines

    secret, kept = new_token(name, scope, listed(federations))
    typer.echo(f"the token, which is told only now: {secret}", err=True)
    typer.echo("[[token]]")
    typer.echo("\n".join(toml_lines(kept)))
