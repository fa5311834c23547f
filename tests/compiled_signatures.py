"""How often each compiled function was compiled, in a process of its own: a program for a test."""

import json
import sys
from typing import Any

import numpy as np

import stagewise
from stagewise.search.annealing import anneal
from stagewise.world.scenario import Scenario


def dispatchers() -> dict[str, Any]:
    """Every compiled function of ours that is loaded."""
    return {
        f"{value.py_func.__module__}.{value.py_func.__qualname__}": value
        for name, module in list(sys.modules.items())
        if name.startswith("stagewise")
        for value in vars(module).values()
        if isinstance(value, type(anneal))
    }


def plan_and_decide(scenario: Scenario, *, read_only: bool) -> dict[str, int]:
    """How many signatures each compiled function has after every method was used."""
    rounds = stagewise.participation.bernoulli(scenario, 2, seed=1)
    if read_only:
        for part in (scenario.clients, scenario.edges, scenario.links, scenario.costs, scenario):
            freeze(vars(part))
        for round_ in rounds:
            freeze(vars(round_))
    for method in ("pool", "local-search", "paper"):
        plan = stagewise.plan(scenario, method=method)
        if read_only:
            freeze(vars(plan))
        for mode in ("strict", "flexible"):
            stagewise.decide(plan, rounds, mode=mode)
    for method in ("exact", "orig-prob-solver", "kld-minimization"):
        stagewise.solve(scenario, rounds, method=method)
    return {
        name: max(len(one.signatures), len(one.inner.signatures))
        for name, one in dispatchers().items()
    }


def freeze(values: dict[str, Any]) -> None:
    for value in values.values():
        for array in value if isinstance(value, tuple) else (value,):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False


if __name__ == "__main__":
    scenario = stagewise.generate.numeric(clients=24, edges=2, seed=1)
    written = plan_and_decide(scenario, read_only=False)
    frozen = stagewise.generate.numeric(clients=24, edges=2, seed=1)
    _ = frozen.clients.label_rows, frozen.clients.data, frozen.links.client, frozen.costs
    print(json.dumps([written, plan_and_decide(frozen, read_only=True)]))
