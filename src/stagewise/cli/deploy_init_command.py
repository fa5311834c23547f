"""`stagewise deploy init`: a deployment on several machines."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from stagewise.cli.options import TRAINED, DataDir, option, with_options
from stagewise.errors import StagewiseError

if TYPE_CHECKING:
    from stagewise.deploy.service_files import Format
    from stagewise.deploy.site import Site


def need_flower() -> None:
    """Raise an error where the extra `deploy` is not installed."""
    if find_spec("cryptography") is None:
        raise StagewiseError("deploy needs Flower: pip install 'stagewise-hfl[deploy]'")


# Without a default: a file, or the folder of the run, may say what these do not.
DEPLOYED = {
    "dataset": option(str, None, "See `stagewise data`. Default: mnist5k."),
    "policy": option(str, None, "See `stagewise methods`. Default: pool."),
    "seed": option(int, None, "Seed of every random draw. Default: 0."),
    "scenario": option(str, None, "Scenario file. Default: the paper's, for these clients."),
    **TRAINED,
}


@with_options(
    {
        "design": option(str, None, "H (default): edges are servers; F: groups at the cloud."),
        "rounds": option(int, None, "Number of rounds. Default: 30."),
        **DEPLOYED,
    }
)
def init(
    out: Annotated[str, typer.Option(help="Folder to write; must not exist.")],
    cloud: Annotated[
        str | None, typer.Option(metavar="HOST[:PORT]", help="Where the cloud runs.")
    ] = None,
    edge: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=HOST[:PORT]", help="An edge; in design F its ID alone."),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID[,ID]=HOST[:EDGE,EDGE]", help="Clients, and their edges unless it is all."
        ),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option("--from", metavar="SITE.TOML", help="All of it from a file instead."),
    ] = None,
    data_dir: DataDir = None,
    format_: Annotated[
        str,
        typer.Option("--format", help="scripts; and for a service manager systemd, compose, helm."),
    ] = "scripts",
    **options: Any,
) -> None:
    """Certificates, keys and a run.sh for every machine of a deployment."""
    if format_ not in ("scripts", "systemd", "compose", "helm"):
        raise StagewiseError(f"format = {format_!r}: must be scripts, systemd, compose or helm")
    given = {name: value for name, value in options.items() if value is not None}
    described = (
        _described(cloud, edge or [], client or [], given)
        if site is None
        else _from_file(site, given | {"cloud": cloud, "edge": edge, "client": client})
    )
    need_flower()
    from stagewise.deploy.init import check_new, init_site
    from stagewise.deploy.site_scenario import site_scenario
    from stagewise.policies.registry import policy_factory

    check_new(Path(out))
    policy_factory(described.policy)  # refuses an unknown one
    init_site(described, *site_scenario(described, data_dir), Path(out), cast("Format", format_))
    typer.echo(f"{out}: copy each folder of hosts/ to its machine and start its run.sh")
    for host in described.hosts:
        typer.echo(f"  {host}")


def _described(cloud: str | None, edges: list[str], clients: list[str], given: Any) -> "Site":
    from stagewise.deploy.places import parse_clients, parse_cloud, parse_edges
    from stagewise.deploy.site import make_site

    if cloud is None:
        raise StagewiseError("cloud: must be given, or a file with --from")
    at = parse_cloud(cloud)
    servers = parse_edges(edges, at)
    return make_site(cloud=at, edges=servers, clients=parse_clients(clients, servers), **given)


def _from_file(path: str, given: dict[str, Any]) -> "Site":
    from stagewise.deploy.site import load_site

    for name, value in given.items():
        if value:
            raise StagewiseError(f"{name}: must not be given with --from, which says everything")
    return load_site(path)
