"""Commands for the machines of a deployment: what is wrong there, and who belongs to it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stagewise.cli.deploy_init_command import need_flower
from stagewise.cli.options import Json
from stagewise.cli.tables import print_findings
from stagewise.errors import StagewiseError

if TYPE_CHECKING:
    from stagewise.deploy.membership import Change, SiteFolder

SiteArgument = Annotated[str, typer.Argument(help="The site's folder, by `deploy init`.")]
NodeArgument = Annotated[str, typer.Argument(help="The id of a client or an edge.")]


def doctor(
    folder: Annotated[str, typer.Argument(help="A machine's folder, as `deploy init` wrote it.")],
    as_json: Json = False,
) -> None:
    """What would keep a machine from working: versions, disk, keys, certificates, ports, clocks."""
    need_flower()
    from stagewise.deploy.doctor import examine

    print_findings(examine(Path(folder)), as_json)


def revoke(site: SiteArgument, name: NodeArgument) -> None:
    """Take a node's right to connect; the rounds go on without it."""
    _change(site, lambda folder: folder.revoke(name))


def rotate(site: SiteArgument, name: NodeArgument) -> None:
    """Give a node new keys; its old ones are refused from then on."""
    _change(site, lambda folder: folder.rotate(name))


def renew(site: SiteArgument) -> None:
    """Give every server a new certificate; each is used when its program starts again."""
    _change(site, lambda folder: folder.renew())


def remove_client(
    site: SiteArgument, name: Annotated[str, typer.Argument(help="The id of a client.")]
) -> None:
    """Take a client off its machine, and its right to connect."""
    _change(site, lambda folder: folder.remove_client(name))


def add_client(
    site: SiteArgument,
    client: Annotated[str, typer.Argument(metavar="ID=HOST", help="Which client, and where.")],
    row: Annotated[
        str | None,
        typer.Option(help="For a new client: the file of its object in a scenario's `clients`."),
    ] = None,
) -> None:
    """Put a new client on a machine, or one that was removed; a run takes it in between two rounds."""
    name, equals, host = client.partition("=")
    if not equals or not name or not host:
        raise StagewiseError(f"client = {client!r}: must be ID=HOST")

    def add(folder: "SiteFolder") -> "list[Change]":
        from stagewise.world.scenario_file import load_client

        return folder.add_client(name, host, None if row is None else load_client(row))

    _change(site, add)


def _change(site: str, act: "Callable[[SiteFolder], list[Change]]") -> None:
    need_flower()
    from stagewise.deploy.membership import SiteFolder, instructions

    folder = SiteFolder(Path(site))
    for line in instructions(act(folder)):
        typer.echo(line)


SITE_COMMANDS = (doctor, revoke, rotate, renew, remove_client, add_client)
