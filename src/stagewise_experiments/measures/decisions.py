"""What a policy decides, round after round, without any training."""

import math
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any

import stagewise
from stagewise import Decision, Limits, Policy, Scenario
from stagewise.policies.registry import policy_name
from stagewise.pool.learning import build_library
from stagewise_experiments.measures.scenarios import make_rounds
from stagewise_experiments.setting import Setting

SECONDS = {"exact": 30.0}
"""What a decision may take, for methods that would go on for long; others end by themselves."""

_WITH_PLAN = ("stagewise-", "pool-")


def measure_decisions(setting: Setting) -> dict[str, Any]:
    """The figures of every round's decision, and the time of the first plan where there is one."""
    scenario, rounds = make_rounds(setting)
    policy = make_policy(setting, scenario)
    first = policy.plan
    if setting.diversity:
        policy = stagewise.Diverse(policy, setting.diversity)
    if replan_every(setting, policy) is not None:
        policy = stagewise.Replanned(policy, stagewise.Triggers(every=setting.replan_every))
    with closing(policy):
        decisions = stagewise.solve(scenario, rounds, policy)
    return {
        "rounds": [_figures(decision) for decision in decisions],
        "plan_ms": None if first is None else first.plan_ms,
    }


def make_policy(setting: Setting, scenario: Scenario) -> Policy:
    """The cell's policy for `scenario`, with all that it calls compiled."""
    name = policy_name(setting.policy)
    _prepare(name)
    return stagewise.make_policy(name, scenario, setting.seed, SECONDS.get(name))


def replan_every(setting: Setting, policy: Policy) -> int | None:
    """When Plan A runs again; a policy without a plan has nothing to run."""
    return None if policy.plan is None else setting.replan_every


@cache
def _prepare(name: str) -> None:
    """Load or compile what the policy calls, on a small scenario, so that no timing shows it."""
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
