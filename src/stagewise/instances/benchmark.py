"""A policy's score card: how far its decisions are from the best known, whether they keep the limits."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stagewise.decisions import Decision
from stagewise.instances.best_known import BestKnown, best_known
from stagewise.instances.catalogue import BenchmarkInstance, load_instance
from stagewise.loop import run_rounds
from stagewise.policies.policy import Policy
from stagewise.policies.registry import PolicyLike, make_policy, policy_factory
from stagewise.world.checks import finite, seed_number

_BETTER = 1e-9  # in parts of the value, for it to be a new best


@dataclass(frozen=True)
class Score:
    """What a policy did on one instance; means over the rounds that both sides decided feasibly."""

    instance: str
    rounds: int
    feasible: int
    """Rounds in which it kept every limit."""
    could_be: int
    """Rounds in which that is known to be possible."""
    over_best: float | None
    """Its cost over that of the best decision known, 1 where they are equal; None without any."""
    over_bound: float | None
    new_best: int
    """Rounds in which it costs less than anything known."""
    decision_ms_median: float
    decision_ms_max: float
    plan_s: float | None
    """The time of Plan A, for policies that have one."""
    costs: tuple[float | None, ...]
    """What each round cost; None where a limit was not kept."""
    decision_ms: tuple[float, ...]
    """How long each decision took."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def benchmark(
    policy: PolicyLike,
    instances: Iterable[str],
    *,
    seed: int = 0,
    seconds: float | None = None,
    progress: Callable[[Score], None] | None = None,
) -> list[Score]:
    """The score card of a policy.

    Parameters
    ----------
    policy : str or function
        A name of `stagewise methods`, or what makes a policy for a scenario.
    instances : iterable of str
        Names of `stagewise.instance_names`.
    seed : int
        Of the policy's draws.
    seconds : float, optional
        The time that one decision may take.
    progress : function, optional
        Called with every score as soon as it is there.

    Examples
    --------
    >>> import stagewise
    >>> [score] = stagewise.benchmark("pool", ["paper-100x4-1"])
    >>> score.feasible, round(score.over_best, 3)
    (5, 1.0)
    """
    seed_number(seed)
    if seconds is not None:
        finite("seconds", seconds, 0, open_below=True)
    if isinstance(policy, str):
        policy_factory(policy)  # a mistake in a name is told before anything is made
    scores = []
    for instance in [load_instance(name) for name in instances]:
        scores.append(_score(policy, instance, seed, seconds))
        if progress is not None:
            progress(scores[-1])
    return scores


def _score(
    policy: PolicyLike, instance: BenchmarkInstance, seed: int, seconds: float | None
) -> Score:
    scenario, rounds = instance.make()
    made: Policy = make_policy(policy, scenario, seed, seconds)
    try:
        decisions = [played.decision for played in run_rounds(made, rounds)]
        plan = made.plan
    finally:
        made.close()
    plan_s = None if plan is None else plan.plan_ms / 1000
    return score_of(instance.name, *costs_and_times(decisions), plan_s)


def costs_and_times(decisions: Sequence[Decision]) -> tuple[list[float | None], list[float]]:
    """What each decision costs, None where it breaks a limit, and the milliseconds it took."""
    costs = [decision.objective if decision.feasible else None for decision in decisions]
    return costs, [decision.decision_ms for decision in decisions]


def score_of(
    name: str, costs: Sequence[float | None], decision_ms: Sequence[float], plan_s: float | None
) -> Score:
    """The score of decisions that cost `costs` in all rounds of the instance `name`."""
    known = best_known(name) or [BestKnown()] * len(costs)
    pairs = [(cost, k) for cost, k in zip(costs, known, strict=True) if cost is not None]
    return Score(
        instance=name,
        rounds=len(costs),
        feasible=len(pairs),
        could_be=sum(k.value is not None for k in known),
        over_best=_mean(cost / k.value for cost, k in pairs if k.value),
        over_bound=_mean(cost / k.bound for cost, k in pairs if k.bound),
        new_best=sum(k.value is None or cost < k.value * (1 - _BETTER) for cost, k in pairs),
        decision_ms_median=float(np.median(decision_ms)),
        decision_ms_max=max(decision_ms),
        plan_s=plan_s,
        costs=tuple(costs),
        decision_ms=tuple(decision_ms),
    )


def _mean(ratios: Iterable[float]) -> float | None:
    found = list(ratios)
    return float(np.mean(found)) if found else None
