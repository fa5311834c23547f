"""What a policy decides, round after round, without any training."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

from stagewise.decisions import Decision
from stagewise.experiments.measures.worlds import make_world
from stagewise.experiments.setting import Setting
from stagewise.methods.stagewise import StagewisePolicy
from stagewise.plan_a.planners import plan
from stagewise.policy import Policy, policy_factory
from stagewise.pool.learning import build_library
from stagewise.simulator.config import Replanning
from stagewise.simulator.decider import Decider, policy_name, with_diversity
from stagewise.warm_up import warm_up
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.scenario import Limits, Scenario

SECONDS = {"exact": 30.0}
"""What a decision may take, for methods that would go on for long; others end by themselves."""

_WITH_PLAN = ("stagewise-", "pool-")


def measure_decisions(setting: Setting) -> dict[str, Any]:
    """The figures of every round's decision, and the time of the first plan where there is one."""
    scenario, rounds = make_world(setting)
    policy = make_policy(setting, scenario)
    first = getattr(policy, "plan", None)
    replanning = replanning_of(setting, policy)
    decider = Decider(policy, setting.policy, None, replanning, lambda ordered_in, new: None)
    try:
        decisions = [decider.decide(round_, index) for index, round_ in enumerate(rounds)]
    finally:
        decider.close()
    return {
        "rounds": [_figures(decision) for decision in decisions],
        "plan_ms": None if first is None else first.plan_ms,
    }


def make_policy(setting: Setting, scenario: Scenario) -> Policy:
    """The cell's policy for `scenario`, with all that it calls compiled."""
    name = policy_name(setting.policy)
    factory, seconds = policy_factory(name), SECONDS.get(name)
    _prepare(name)
    policy = factory(scenario, seed=setting.seed, seconds=seconds)
    return with_diversity(policy, setting.diversity)


def replanning_of(setting: Setting, policy: Policy) -> Replanning:
    """When Plan A runs again; a policy without a plan has nothing to run."""
    follows_plan = isinstance(policy, StagewisePolicy)
    return Replanning(every=setting.replan_every if follows_plan else None)


@cache
def _prepare(name: str) -> None:
    """Load or compile what the policy calls, on a small scenario, so that no timing shows it."""
    if name.startswith(_WITH_PLAN):
        prepare_plans()
        return
    warm_up()
    scenario = _small_scenario()
    policy = policy_factory(name)(scenario, seed=0, seconds=0.1)
    for index, round_ in enumerate(bernoulli(scenario, 2)):
        policy.decide(round_, index)


@cache
def prepare_plans() -> None:
    """Load or compile what Plan A and Plan B call."""
    scenario = _small_scenario()
    plans = [plan(scenario, method=name, seconds=0.05) for name in ("paper", "local-search")]
    # A plan by the pool is searched for long however small the scenario; any with a library will do.
    plans.append(replace(plans[-1], method="pool", library=build_library(scenario)))
    for index, round_ in enumerate(bernoulli(scenario, 2)):
        for made in plans:
            for mode in ("strict", "flexible"):
                made.decide(round_, index=index, mode=mode)


def _small_scenario() -> Scenario:
    """Large enough for every part of a method to be called, and decided at once."""
    return numeric(30, 2, limits=Limits(data_min=1500, kld_max=0.4))


def _figures(decision: Decision) -> dict[str, Any]:
    evaluation = decision.evaluation
    divergences = evaluation.kld[evaluation.clients > 0]
    return {
        "objective": decision.objective,
        "delay_s": decision.delay_s,
        "energy_j": decision.energy_j,
        "clients": int(evaluation.clients.sum()),
        "kld": finite_or_none(divergences.mean()) if len(divergences) else None,
        "feasible": decision.feasible,
        "decision_ms": decision.decision_ms,
        "lower_bound": decision.lower_bound,
    }


def finite_or_none(value: float | None) -> float | None:
    """The number, or None for one that JSON cannot hold."""
    return None if value is None or not math.isfinite(value) else float(value)
