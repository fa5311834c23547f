"""`{command-line}`: every command of `stagewise`, with its arguments and options, as Typer has them."""

from collections.abc import Iterator
from typing import Any

from sources import Generated
from typer.main import get_command

from stagewise.cli.main import app


class CommandLine(Generated):
    def markdown(self) -> str:
        return "\n".join(
            line for command in commands() for line in described(command, "stagewise", 2)
        )


def commands() -> list[Any]:
    """Those right below `stagewise`."""
    root = get_command(app)
    context = root.make_context("stagewise", [], resilient_parsing=True)
    return [root.get_command(context, name) for name in root.list_commands(context)]


def described(command: Any, above: str, level: int) -> Iterator[str]:
    """A command and those below it, as Markdown."""
    title = f"{above} {command.name}"
    yield f"{'#' * level} {title}\n"
    yield " ".join((command.help or "").split()) + "\n"
    if hasattr(command, "commands"):
        for inner in command.commands.values():
            yield from described(inner, title, level + 1)
        return
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    positional = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    names = "".join(f" {_placeholder(parameter)}" for parameter in positional)
    yield f"```text\n{title}{names} [options]\n```\n"
    options = [parameter for parameter in shown if parameter not in positional]
    rows = [_row(parameter) for parameter in (*positional, *options)]
    if rows:
        yield "| | what | default |\n|---|---|---|"
        yield from rows
        yield ""


def _placeholder(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper()
    return f"{name}..." if parameter.nargs == -1 else name


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{_placeholder(parameter)}`"
    else:
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    what = " ".join((parameter.help or "").split()).replace("|", "\\|")
    return f"| {names} | {what} | {_default(parameter)} |"


def _default(parameter: Any) -> str:
    """Flags are off, and what has no default is left out."""
    default = parameter.default
    if parameter.required:
        return "required"
    if default is None or callable(default) or default is False or default in ((), [], ""):
        return ""
    if not isinstance(default, (bool, int, float, str)):  # what stands for "not given"
        return ""
    return f"`{default}`"


def setup(app_: Any) -> dict[str, bool]:
    app_.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True}
