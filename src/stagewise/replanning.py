"""Plan A again while rounds go by: when it is due, and beside the rounds, never in their way."""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import numpy as np

from stagewise.decisions import Decision
from stagewise.plan_a.planners import plan as make_long_term_plan
from stagewise.plans import Plan
from stagewise.problem.risk import RiskName
from stagewise.world.checks import finite, whole
from stagewise.world.costs import UNASSIGNED
from stagewise.world.estimator import ParticipationEstimator
from stagewise.world.rounds import Round, round_of
from stagewise.world.scenario import BoolArray, Scenario

P = ParamSpec("P")
T = TypeVar("T")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Triggers:
    """When a new plan is due; None switches a trigger off."""

    every: int | None = None
    """So many rounds after the last order."""
    cost_factor: float | None = None
    """A round cost more than this many times the plan's own cost with everybody online."""
    change_factor: float | None = None
    """The long-term clients' gains or CPUs changed by more than this factor, in the median."""
    absence_gap: float | None = None
    """The share of long-term clients online over the last window is off the estimate by more."""

    def __post_init__(self) -> None:
        if self.every is not None:
            whole("every", self.every, 1)
        if self.cost_factor is not None:
            finite("cost_factor", self.cost_factor, 0, open_below=True)
        if self.change_factor is not None:
            finite("change_factor", self.change_factor, 1)
        if self.absence_gap is not None:
            finite("absence_gap", self.absence_gap, 0)


class Replanner:
    """Decides rounds from the newest plan there is, and orders a new one when a trigger fires.

    A plan is computed in `executor` (default: a thread; the search releases the interpreter's lock)
    with the estimates and costs known when it was ordered. A decision never waits for it: the plan
    takes effect in the first round that begins after it is ready, `lag` rounds after its order at the
    earliest. A plan that fails leaves the old one in force, and a warning in the log.
    """

    def __init__(
        self,
        plan: Plan,
        triggers: Triggers,
        *,
        method: str | None = None,
        risk: RiskName = "exact",
        executor: Executor | None = None,
        lag: int = 1,
    ) -> None:
        scenario = plan.scenario
        self.plan = plan
        self.triggers = triggers
        self.orders: list[tuple[int, str]] = []
        """Every order so far: (round, the trigger that fired)."""
        self.adopted: list[int] = []
        """The rounds in which a new plan took effect."""
        self._method = plan.method if method is None else method
        self._risk = risk
        self._lag = whole("lag", lag, 1)
        self._owned = ThreadPoolExecutor(max_workers=1) if executor is None else None
        self._executor: Executor = executor or self._owned  # type: ignore[assignment]
        self._estimator = ParticipationEstimator(
            scenario.clients.online_probability, scenario.estimator_window
        )
        self._under_way: Future[Plan] | None = None
        self._ordered_in = 0
        self._made_for = scenario
        self._next_made_for = scenario
        self._index = 0

    def decide(self, online: Round | BoolArray | Iterable[str], **options: Any) -> Decision:
        """The next round's decision; `options` are those of `Plan.decide` but for `index`."""
        self._adopt()
        round_ = round_of(self.plan.scenario, online)
        decision = self.plan.decide(round_, index=self._index, **options)
        self._estimator.observe(round_.online)
        if self._under_way is None:
            reason = self._due(round_, decision)
            if reason is not None:
                self._order(round_, reason)
        self._index += 1
        return decision

    def close(self) -> None:
        """Give up a plan under way."""
        if self._under_way is not None:
            self._under_way.cancel()
            self._under_way = None
        if self._owned is not None:
            self._owned.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> "Replanner":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _adopt(self) -> None:
        ready = self._under_way
        if ready is None or not ready.done() or self._index < self._ordered_in + self._lag:
            return
        self._under_way = None
        try:
            # The new plan serves the scenario that the rounds belong to.
            self.plan = replace(ready.result(), scenario=self.plan.scenario)
        except Exception as error:
            _LOG.warning("the plan ordered in round %d failed: %s", self._ordered_in, error)
            return
        self._made_for = self._next_made_for
        self.adopted.append(self._index)

    def _order(self, round_: Round, reason: str) -> None:
        self._next_made_for = self._as_it_is(round_)
        self._ordered_in = self._index
        self.orders.append((self._index, reason))
        try:
            self._under_way = self._executor.submit(
                make_long_term_plan,
                self._next_made_for,
                method=self._method,
                risk=self._risk,
                seed=self.plan.seed,
            )
        except RuntimeError as error:  # a pool that is broken or has been shut down
            _LOG.warning("the plan ordered in round %d failed: %s", self._index, error)

    def _as_it_is(self, round_: Round) -> Scenario:
        """The scenario with the estimates, CPUs and gains of now."""
        scenario = round_.scenario
        clients = replace(
            scenario.clients,
            online_probability=self._estimator.probabilities(),
            history=None,
            cpu_hz=scenario.clients.cpu_hz if round_.cpu_hz is None else round_.cpu_hz,
        )
        gain = scenario.links.gain if round_.gain is None else round_.gain
        links = replace(scenario.links, gain=gain)
        return replace(scenario, clients=clients, links=links, file_sha256=None)

    def _due(self, round_: Round, decision: Decision) -> str | None:
        triggers = self.triggers
        since = self._index - (self.orders[-1][0] if self.orders else -1)
        if triggers.every is not None and since >= triggers.every:
            return "every"
        if triggers.cost_factor is not None:
            weights = self.plan.scenario.weights
            planned = self.plan.objective + weights.continuity * self.plan.continuity
            if decision.objective > triggers.cost_factor * planned:
                return "cost"
        if triggers.change_factor is not None and self._change(round_) > triggers.change_factor:
            return "change"
        if triggers.absence_gap is not None and self._absence_gap(since) > triggers.absence_gap:
            return "absence"
        return None

    def _change(self, round_: Round) -> float:
        """By what factor the long-term clients' gains or CPUs differ from the plan's; the larger."""
        client = np.flatnonzero(self.plan.edge_of != UNASSIGNED)
        if len(client) == 0:
            return 1.0
        link = round_.scenario.links.find(client, self.plan.edge_of[client])
        then = self._made_for
        cpu = round_.scenario.clients.cpu_hz if round_.cpu_hz is None else round_.cpu_hz
        gain = round_.scenario.links.gain if round_.gain is None else round_.gain
        factors = (
            np.abs(np.log(cpu[client] / then.clients.cpu_hz[client])),
            np.abs(np.log(gain[link] / then.links.gain[link])),
        )
        return float(np.exp(max(np.median(factor) for factor in factors)))

    def _absence_gap(self, since: int) -> float:
        long_term = self.plan.edge_of != UNASSIGNED
        if since < self.plan.scenario.estimator_window or not long_term.any():
            return 0.0
        seen = self._estimator.recent_mean()[long_term].mean()
        return float(abs(seen - self._made_for.clients.online_probability[long_term].mean()))


class InlineExecutor(Executor):
    """Runs a task at once, in the caller: for files of past rounds, where no time goes by."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
