"""What policies and planners call, loaded or compiled on a small scenario, so that no time shows it."""

from dataclasses import replace
from functools import cache

import stagewise
from stagewise import Limits, Scenario
from stagewise.pool.learning import build_library

_WITH_PLAN = ("stagewise-", "pool-")


@cache
def prepare_policy(name: str) -> None:
    """Load or compile what the policy calls."""
    if name.startswith(_WITH_PLAN):
        prepare_plans()
    else:
        scenario = _small_scenario()
        rounds = stagewise.participation.bernoulli(scenario, 2)
        stagewise.solve(scenario, rounds, name, seconds=0.1)


@cache
def prepare_plans() -> None:
    """Load or compile what Plan A and Plan B call."""
    scenario = _small_scenario()
    rounds = stagewise.participation.bernoulli(scenario, 2)
    plans = [stagewise.plan(scenario, method=m, seconds=0.05) for m in ("paper", "local-search")]
    # A plan by the pool is searched for long however small the scenario; any with a library will do.
    plans.append(replace(plans[-1], method="pool", library=build_library(scenario)))
    for plan in plans:
        stagewise.decide(plan, rounds, mode="strict")
        stagewise.decide(plan, rounds, mode="flexible")


def _small_scenario() -> Scenario:
    """Large enough for every part of a method to be called, and decided at once."""
    return stagewise.generate.numeric(30, 2, limits=Limits(data_min=1500, kld_max=0.4))
