"""Commands for the machines of a deployment: `stagewise deploy doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from stagewise.cli.options import Json
from stagewise.cli.tables import print_json, print_table


def doctor(
    folder: Annotated[str, typer.Argument(help="A machine's folder, as `deploy init` wrote it.")],
    as_json: Json = False,
) -> None:
    """What would keep a machine from working: versions, disk, keys, certificates, ports, clocks."""
    from stagewise.deploy.doctor import examine

    findings = examine(Path(folder))
    if as_json:
        print_json(findings)
    else:
        print_table(["", "what", ""], [[f.verdict, f.what, f.text] for f in findings])
    if any(finding.verdict == "problem" for finding in findings):
        raise typer.Exit(1)
