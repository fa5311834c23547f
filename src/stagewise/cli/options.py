"""Options that several commands have.

Whatever needs NumPy, PyTorch or Flower is imported inside the commands, or as a name of `stagewise`,
so that --help answers at once.
"""

from typing import Annotated

import typer

Output = Annotated[str, typer.Option("--output", "-o", help="File to write; - is standard output.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
DataDir = Annotated[str | None, typer.Option(help="Folder of data sets. Default: $STAGEWISE_DATA.")]
ModelName = Annotated[
    str | None, typer.Option(help="mnist-cnn, lenet5, cifar-cnn, ... Default: by the data set.")
]
LearningRate = Annotated[
    float | None, typer.Option(help="Of each local step. Default: by the model.")
]

Remedy = Annotated[
    str | None, typer.Option(help="For rounds that stay infeasible: drop, reweight or lend.")
]
Diversity = Annotated[
    float, typer.Option(help="How much more a client costs for having served; 0: nothing.")
]
ReplanEvery = Annotated[int | None, typer.Option(help="Plan A again after so many rounds.")]
ReplanCost = Annotated[
    float | None, typer.Option(help="... when a round costs this many times the plan.")
]
ReplanChange = Annotated[
    float | None, typer.Option(help="... when links or CPUs changed by this factor.")
]
ReplanAbsence = Annotated[
    float | None, typer.Option(help="... when presence is off its estimate by this much.")
]


def listed(names: str | None) -> list[str]:
    """The names that an option gives with commas between."""
    return [] if names is None else [name.strip() for name in names.split(",")]
