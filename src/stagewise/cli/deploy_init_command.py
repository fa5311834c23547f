"""`stagewise deploy init`: a deployment on several machines."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stagewise.cli.options import DataDir, LearningRate, ModelName
from stagewise.errors import StagewiseError

if TYPE_CHECKING:
    from stagewise.deploy.site import Site


# A file, or the folder of the run, may say what these do not.
SiteDataset = Annotated[str | None, typer.Option(help="See `stagewise data`. Default: mnist5k.")]
SitePolicy = Annotated[str | None, typer.Option(help="See `stagewise methods`. Default: pool.")]
SiteSeed = Annotated[int | None, typer.Option(help="Seed of every random draw [0].")]
SiteScenario = Annotated[
    str | None, typer.Option(help="Scenario file. Default: the paper's, for these clients.")
]


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
    design: Annotated[
        str | None, typer.Option(help="H (default): edges are servers; F: groups at the cloud.")
    ] = None,
    dataset: SiteDataset = None,
    data_dir: DataDir = None,
    model: ModelName = None,
    learning_rate: LearningRate = None,
    policy: SitePolicy = None,
    rounds: Annotated[int | None, typer.Option(help="Number of rounds [30].")] = None,
    seed: SiteSeed = None,
    scenario: SiteScenario = None,
) -> None:
    """Certificates, keys and a run.sh for every machine of a deployment."""
    options = dict(locals())
    names = ("design", "dataset", "model", "learning_rate", "policy", "rounds", "seed", "scenario")
    given = {name: options[name] for name in names if options[name] is not None}
    described = (
        _described(cloud, edge or [], client or [], given)
        if site is None
        else _from_file(site, given | {"cloud": cloud, "edge": edge, "client": client})
    )
    if find_spec("cryptography") is None:
        raise StagewiseError("deploy needs Flower: pip install 'stagewise-hfl[deploy]'")
    from stagewise.deploy.init import check_new, init_site
    from stagewise.deploy.site_scenario import site_scenario
    from stagewise.policies.registry import policy_factory

    check_new(Path(out))
    policy_factory(described.policy)  # refuses an unknown one
    init_site(described, *site_scenario(described, data_dir), Path(out))
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
