"""Methods side by side on the same rounds: cost, delay, energy, feasibility and decision time."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stagewise.decisions import Decision
from stagewise.loop import run_rounds
from stagewise.policies.registry import make_policy, policy_factory, policy_name, policy_names
from stagewise.world.checks import finite, seed_number
from stagewise.world.rounds import OnlineRounds, Round, numbered
from stagewise.world.scenario import Scenario


@dataclass(frozen=True)
class MethodSummary:
    """What one method did over all rounds; means over rounds unless named otherwise."""

    method: str
    rounds: int
    feasible_rounds: int
    objective: float
    delay_s: float
    energy_j: float
    clients: float
    kld: float
    """Of the edges that have clients."""
    decision_ms_median: float
    decision_ms_max: float
    plan_ms: float | None
    """The time of Plan A, for methods that have one."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    scenario: Scenario,
    rounds: OnlineRounds,
    *,
    methods: Iterable[str] | None = None,
    seed: int = 0,
    seconds: float | None = None,
    executor: Executor | None = None,
    progress: Callable[[MethodSummary], None] | None = None,
) -> list[MethodSummary]:
    """Every method on the same rounds, in the order given.

    Parameters
    ----------
    scenario : Scenario
        The system.
    rounds : sequence of Round
        In ascending order.
    methods : iterable of str, optional
        Names of `stagewise methods`; by default all of them.
    seed : int
        Of every random draw.
    seconds : float, optional
        The time that one decision may take.
    executor : Executor, optional
        Where the methods run, one task each; decisions do not depend on it.
    progress : function, optional
        Called with every summary as soon as it is there.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2)
    >>> found = stagewise.compare(scenario, rounds, methods=["fedcs", "c2e-assoc-only"])
    >>> [(summary.method, summary.rounds) for summary in found]
    [('fedcs', 2), ('c2e-assoc-only', 2)]
    """
    seed_number(seed)
    if seconds is not None:
        finite("seconds", seconds, 0, open_below=True)
    names = policy_names() if methods is None else [policy_name(name) for name in methods]
    for name in names:
        policy_factory(name)
    summaries: dict[str, MethodSummary] = {}
    drawn = list(numbered(scenario, rounds))
    tasks = ((name, scenario, drawn, seed, seconds) for name in names)
    if executor is None:
        finished: Iterable[MethodSummary] = (run_method(*task) for task in tasks)
    else:
        futures = [executor.submit(run_method, *task) for task in tasks]
        finished = (future.result() for future in as_completed(futures))
    for summary in finished:
        summaries[summary.method] = summary
        if progress is not None:
            progress(summary)
    return [summaries[name] for name in names]


def run_method(
    name: str, scenario: Scenario, rounds: Sequence[Round], seed: int, seconds: float | None
) -> MethodSummary:
    """One method on all rounds."""
    policy = make_policy(name, scenario, seed, seconds)
    plan_ms = None if policy.plan is None else policy.plan.plan_ms
    decisions = [played.decision for played in run_rounds(policy, rounds)]
    return summarise(policy.title, decisions, plan_ms)


def summarise(method: str, decisions: Sequence[Decision], plan_ms: float | None) -> MethodSummary:
    """The means over `decisions`."""
    times = [decision.decision_ms for decision in decisions] or [0.0]
    divergences = [d.evaluation.kld[d.evaluation.clients > 0] for d in decisions]
    kld = np.concatenate([np.zeros(0), *divergences])

    def mean(values: Iterable[float]) -> float:
        return float(np.mean(list(values))) if decisions else 0.0

    return MethodSummary(
        method=method,
        rounds=len(decisions),
        feasible_rounds=sum(decision.feasible for decision in decisions),
        objective=mean(decision.objective for decision in decisions),
        delay_s=mean(decision.delay_s for decision in decisions),
        energy_j=mean(decision.energy_j for decision in decisions),
        clients=mean(len(decision.assignment) for decision in decisions),
        kld=float(kld.mean()) if len(kld) else 0.0,
        decision_ms_median=float(np.median(times)),
        decision_ms_max=float(np.max(times)),
        plan_ms=plan_ms,
    )
