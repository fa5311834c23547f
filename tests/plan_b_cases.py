"""Plans, rounds and single decisions for the tests of Plan B."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from helpers import random_scenario
from references import random_assignment, random_round
from stagewise.deciding import decide as decide_rounds
from stagewise.decisions import Decision
from stagewise.plans import Plan, make_plan
from stagewise.problem.risk import risk_measure
from stagewise.world.rounds import Round, round_of
from stagewise.world.scenario import Limits, Scenario

METHODS = ("ccu", "repair")
LIMITS = Limits(kld_max=0.5, data_min=80)


def plan_of(scenario: Scenario, edge_of: np.ndarray, method: str = "paper", seed: int = 0) -> Plan:
    """The plan to use `edge_of`."""
    chosen = np.asarray(edge_of, dtype=np.int64)
    return make_plan(risk_measure(scenario), chosen, method=method, seed=seed, plan_ms=0.0)


def random_case(seed: int, clients: int = 10, edges: int = 3) -> tuple[Plan, Round]:
    """A random plan within capacities, and a round in which some of its clients are missing."""
    rng = np.random.default_rng(seed)
    scenario = random_scenario(
        seed, clients, edges, labels=3, limits=LIMITS, isolated=0, capacity=(2, 5)
    )
    edge_of = random_assignment(scenario, rng, share=rng.uniform(0.3, 0.9))
    return plan_of(scenario, edge_of, seed=seed), random_round(scenario, rng, bool(seed % 2))


def decide(
    plan: Plan,
    online: Round | np.ndarray | Iterable[str],
    *,
    index: int = 0,
    mode: str = "strict",
    **options: Any,
) -> Decision:
    """One round decided from a plan, as round `index`; `strict` unless said otherwise."""
    round_ = replace(round_of(plan.scenario, online), index=index)
    (made,) = decide_rounds(plan, [round_], mode=mode, **options)
    return made


def everybody(scenario: Scenario) -> Round:
    return Round(scenario, np.ones(len(scenario.clients), dtype=np.bool_))


def nobody(scenario: Scenario) -> Round:
    return Round(scenario, np.zeros(len(scenario.clients), dtype=np.bool_))


def still_there(plan: Plan, round_: Round) -> np.ndarray:
    """The plan with only its online clients."""
    return np.where(round_.online, plan.edge_of, -1)
