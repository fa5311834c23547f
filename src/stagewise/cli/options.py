"""Options that several commands have."""

from typing import Annotated

import typer

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
