"""The command that says what is installed: `stagewise doctor`."""

from typing import Annotated

import typer

from stagewise.cli.options import DataDir, Json
from stagewise.cli.tables import print_findings


def doctor(
    compile_now: Annotated[
        bool, typer.Option("--compile", help="First compile whatever is not compiled yet.")
    ] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """What is installed, what is missing for what, and whether the search is compiled."""
    from stagewise.doctor import examine

    if compile_now:
        from stagewise.compiled_parts import compile_all

        compile_all()
    print_findings(examine(data_dir), json)
