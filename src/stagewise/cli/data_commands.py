"""The command that says which data sets are at hand: `stagewise data`."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from stagewise.datasets import Finding

# Whatever needs NumPy is imported inside the command, so that --help answers at once.


def data(
    data_dir: Annotated[
        str | None, typer.Option(help="Folder of data sets. Default: $STAGEWISE_DATA.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The data sets by name: where each is found, its size on the disk, and what is missing."""
    from stagewise.datasets import available

    findings = available(data_dir)
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(findings).decode())
    else:
        _print_table(findings)


def _print_table(findings: "list[Finding]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{sum(f.found for f in findings)} of {len(findings)} data sets found")
    table.add_column("name", no_wrap=True)
    table.add_column("layout", no_wrap=True)
    table.add_column("size (MB)", justify="right", no_wrap=True)
    table.add_column("where, or what is missing", overflow="fold")
    for f in findings:
        missing = f"missing: {', '.join(f.missing)}" if f.missing else ""
        table.add_row(
            f.name,
            f.layout or "",
            f"{f.size_bytes / 1e6:.1f}" if f.where else "",
            # As text, since brackets in a path are not markup.
            Text("\n".join(part for part in (f.where, missing) if part)),
        )
    console = Console()
    # Wide enough for paths when the output is not a terminal.
    console.print(table) if console.is_terminal else Console(width=140).print(table)
