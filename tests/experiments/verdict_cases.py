"""Made-up results to judge, and numbers and claims to judge them by."""

import math
from typing import Any

import msgspec
from made_up_results import Outputs, experiment, result, round_of

from stagewise_experiments.cells import Cell
from stagewise_experiments.experiment import Claim, PaperValue
from stagewise_experiments.results import Result
from stagewise_experiments.series import Series

ROUNDS = 1000
AXIS = {"name": "clients", "field": "scenario.clients", "label": "clients", "values": [80, 100]}


def series(
    table: dict[str, list[float]], quantity: str = "objective", note: str = "", **fields: Any
) -> Series:
    """Each policy's values, by seed; accuracies, costs or rounds to the target."""
    measure = "decisions" if quantity == "objective" else "training"
    seeds = len(next(iter(table.values())))
    of = experiment(
        policies=list(table), measure=measure, quantities=[quantity],
        profiles={"quick": {"seeds": seeds, "note": note}}, **fields,
    )  # fmt: skip
    return Series(result(of, lambda cell: outputs_of(quantity, table[cell.policy][cell.seed])))


def outputs_of(quantity: str, value: float) -> Outputs | None:
    if math.isnan(value):
        return None
    if quantity == "objective":
        return {"rounds": [round_of(value)], "plan_ms": None}
    if quantity == "final_accuracy":
        return {"rounds": [round_of(accuracy=value)], "target_accuracy": None, "plan_ms": []}
    # Of so many rounds that two values are hardly ever a tie; the last three are evaluated.
    accuracies = [None] * (ROUNDS - 3) + [0.0 if math.isinf(value) else 0.95] * 3
    spent = min(value, 9.0) / ROUNDS
    return {
        "rounds": [round_of(spent, accuracy=accuracy) for accuracy in accuracies],
        "target_accuracy": 0.9,
        "plan_ms": [],
    }


def printed(value: float, **fields: Any) -> PaperValue:
    table = {"quantity": "objective", "policy": "fedcs", "value": value, **fields}
    return msgspec.convert(table, PaperValue)


def claim(**fields: Any) -> Claim:
    table = {"text": "it is so", "quantity": "objective", "policy": "fedcs", **fields}
    return msgspec.convert(table, Claim)


def by_clients(costs: dict[str, dict[int, list[float]]]) -> Result:
    """Costs of one round by policy, clients and seed."""
    seeds = len(next(iter(next(iter(costs.values())).values())))
    of = experiment(
        policies=list(costs), measure="decisions", quantities=["objective"], axes=[AXIS],
        profiles={"quick": {"seeds": seeds}},
    )  # fmt: skip

    def outputs(cell: Cell) -> Outputs | None:
        return outputs_of("objective", costs[cell.policy][cell.setting.scenario.clients][cell.seed])

    return result(of, outputs)
