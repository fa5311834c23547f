"""Options that several commands have, and commands whose options are tables.

Whatever needs NumPy, PyTorch or Flower is imported inside the commands, or as a name of `stagewise`,
so that --help answers at once.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

Output = Annotated[str, typer.Option("--output", "-o", help="File to write; - is standard output.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
DataDir = Annotated[str | None, typer.Option(help="Folder of data sets. Default: $STAGEWISE_DATA.")]

Command = TypeVar("Command", bound=Callable[..., None])
Options = dict[str, tuple[Any, Any]]
"""The type and the default of each option, by the name of its parameter."""


def option(kind: Any, default: Any, text: str, *names: str) -> tuple[Any, Any]:
    """An option of a table; where the default is None, `kind` need not say that it may be."""
    optional = kind | None if default is None else kind
    return Annotated[optional, typer.Option(*names, help=text)], default


def with_options(shared: Options) -> Callable[[Command], Command]:
    """Give a command the `shared` options, which it takes as `**options`."""

    def decorate(command: Command) -> Command:
        own = [
            parameter
            for parameter in inspect.signature(command).parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        kind = inspect.Parameter.KEYWORD_ONLY
        more = [
            inspect.Parameter(name, kind, default=default, annotation=annotation)
            for name, (annotation, default) in shared.items()
        ]
        # Typer reads both.
        command.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
        command.__annotations__ |= {parameter.name: parameter.annotation for parameter in more}
        return command

    return decorate


REPLANNING: Options = {
    "replan_every": option(int, None, "Plan A again after so many rounds."),
    "replan_cost": option(float, None, "... when a round costs this many times the plan."),
    "replan_change": option(float, None, "... when links or CPUs changed by this factor."),
    "replan_absence": option(float, None, "... when presence is off its estimate by this much."),
}
METRICS_PORT = option(int, None, "Port of 127.0.0.1 where Prometheus finds counters.")
_TRIGGERS = ("every", "cost_factor", "change_factor", "absence_gap")
WRAPPERS: Options = {
    "remedy": option(str, None, "For rounds that stay infeasible: drop, reweight or lend."),
    "diversity": option(float, 0.0, "How much more a client costs for having served; 0: nothing."),
}
TRAINED: Options = {
    "model": option(str, None, "mnist-cnn, lenet5, cifar-cnn, ... Default: by the data set."),
    "learning_rate": option(float, None, "Of each local step. Default: by the model."),
}


def triggers_of(options: dict[str, Any]) -> dict[str, Any]:
    """Take what `REPLANNING` gave out of `options`, by the names of `stagewise.Triggers`."""
    return {name: options.pop(given) for name, given in zip(_TRIGGERS, REPLANNING, strict=True)}


def listed(names: str | None) -> list[str]:
    """The names that an option gives with commas between."""
    return [] if names is None else [name.strip() for name in names.split(",")]


def listed_methods(names: str) -> list[str]:
    """The methods that an option gives with commas between; `key=value` belongs to the one before."""
    found: list[str] = []
    for part in listed(names):
        # No name of a method begins like that, but an option of one does: oort,k=20+nearest.
        if found and "=" in part.partition("+")[0]:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found
