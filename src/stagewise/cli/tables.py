"""What commands print: tables on the terminal, or JSON."""

from collections.abc import Collection
from typing import Any

import typer

from stagewise.diagnosis import Finding


def print_json(value: Any) -> None:
    """Print `value` as JSON on one line."""
    import msgspec

    typer.echo(msgspec.json.encode(value).decode())


def print_table(
    headings: list[str],
    lines: list[list[str]],
    title: str | None = None,
    left: Collection[int] = (0,),
) -> None:
    """Print a table: the columns `left` to the left, the others to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title)
    for place, heading in enumerate(headings):
        side: Any = "left" if place in left else "right"
        table.add_column(heading, justify=side, no_wrap=place == 0, overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))  # as text, since brackets in a path are not markup
    console = Console()
    # Wide enough for every column when the output is not a terminal.
    console.print(table) if console.is_terminal else Console(width=170).print(table)


def print_findings(findings: list[Finding], json: bool) -> None:
    """Print what an examination found; exit status 1 where there is a problem."""
    if json:
        print_json(findings)
    else:
        lines = [[finding.verdict, finding.what, finding.text] for finding in findings]
        print_table(["", "what", ""], lines, left=(0, 1, 2))
    if any(finding.verdict == "problem" for finding in findings):
        raise typer.Exit(1)
