"""Tables on the terminal."""

from collections.abc import Collection


def print_table(
    headings: list[str],
    lines: list[list[str]],
    title: str | None = None,
    left: Collection[int] = (0,),
) -> None:
    """Print a table: the columns `left` to the left, the others to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place in left else "right", no_wrap=place == 0)
    for line in lines:
        table.add_row(*line)
    console = Console()
    # Wide enough for every column when the output is not a terminal.
    console.print(table) if console.is_terminal else Console(width=170).print(table)
