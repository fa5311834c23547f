"""Commands of other packages: entry points of the group `stagewise.commands`, each a `typer.Typer`."""

import inspect
import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from stagewise.errors import StagewiseError, one_line

ENTRY_POINTS = "stagewise.commands"


class CommandGroup(TyperGroup):
    """Our own commands, and those of other packages: these are looked for only when asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Our own first; a command that cannot be loaded is reported in a line and left out."""
        names = list(super().list_commands(ctx))
        for name in sorted(_entry_points()):
            try:
                _load(name)
            except StagewiseError as error:
                print(f"stagewise: {error}", file=sys.stderr)
            else:
                names += [name] if name not in names else []
        return names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Our own command of that name, or else another package's."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in _entry_points():
            found = _load(cmd_name)
        if found is not None:
            _restore_help(found)
        return found


def _restore_help(command: Any) -> None:
    """Of arguments, from the command's function: Typer 0.20 on Click 8.5 loses it."""
    for below in getattr(command, "commands", {}).values():
        _restore_help(below)
    for parameter in command.params:
        if parameter.param_type_name == "argument" and not parameter.help:
            written = inspect.signature(command.callback).parameters[parameter.name].annotation
            said = (getattr(each, "help", None) for each in getattr(written, "__metadata__", ()))
            parameter.help = next(filter(None, said), None)


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


@cache
def _load(name: str) -> Any:
    point = _entry_points()[name]
    try:
        app = point.load()
        if not isinstance(app, typer.Typer):
            raise TypeError(f"must be a typer.Typer, but is a {type(app).__name__}")
        holder = typer.Typer(add_completion=False)
        holder.add_typer(app, name=name)
        return get_group(holder).commands[name]
    except Exception as error:  # whatever another package does when it is imported
        reason = f"{type(error).__name__}: {error}"
        raise StagewiseError(one_line(f"command {name} ({point.value}): {reason}")) from None
