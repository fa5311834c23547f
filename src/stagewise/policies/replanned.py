"""Plan A again while rounds go by: when it is due, and beside the rounds, never in their way."""

import logging
from collections import deque
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.outcomes import State
from stagewise.plan_a.planners import plan as make_plan
from stagewise.plans import Plan
from stagewise.policies.policy import Policy, Wrapper
from stagewise.problem.evaluation import evaluate
from stagewise.problem.risk import RiskName
from stagewise.world.checks import finite, instance_of, whole
from stagewise.world.costs import UNASSIGNED
from stagewise.world.forecasts import ROUND_SECONDS, Forecast, make_forecast
from stagewise.world.parts import LINK_RULES
from stagewise.world.rounds import Round
from stagewise.world.scenario import BoolArray, FloatArray, Scenario

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Triggers:
    """When a new plan is due; None switches a trigger off.

    Parameters
    ----------
    every : int, optional
        So many rounds after the last order.
    cost_factor : float, optional
        A round cost more than this many times the plan's own cost with everybody online.
    change_factor : float, optional
        The long-term clients' links or CPUs changed by more than this factor, in the median.
    absence_gap : float, optional
        The share of long-term clients online over the last window is off the estimate by more.

    Examples
    --------
    >>> import stagewise
    >>> bool(stagewise.Triggers()), bool(stagewise.Triggers(every=10))
    (False, True)
    """

    every: int | None = None
    cost_factor: float | None = None
    change_factor: float | None = None
    absence_gap: float | None = None

    def __post_init__(self) -> None:
        if self.every is not None:
            whole("every", self.every, 1)
        if self.cost_factor is not None:
            finite("cost_factor", self.cost_factor, 0, open_below=True)
        if self.change_factor is not None:
            finite("change_factor", self.change_factor, 1)
        if self.absence_gap is not None:
            finite("absence_gap", self.absence_gap, 0)

    def __bool__(self) -> bool:
        return self != Triggers()


class PlanStore(Protocol):
    """Keeps plans that were made along the way, so that they need not be made twice."""

    def save_plan(self, ordered_in: int, plan: Plan) -> None:
        """Keep a plan that takes effect, by the round it was ordered in."""
        ...

    def load_plan(self, ordered_in: int, made_for: Scenario) -> Plan | None:
        """The plan that was ordered in a round, if it was kept."""
        ...


@dataclass(frozen=True, eq=False)
class _PendingPlan:
    """A plan that was asked for: in which round, and for the scenario as it was then."""

    index: int
    made_for: Scenario
    future: "Future[Plan]"


class Replanned(Wrapper):
    """A policy whose plan is made again when a trigger fires.

    A plan is computed in `executor` (default: a thread; the search releases the interpreter's lock)
    with the estimates and costs known when it was ordered, while the round is carried out. One that
    was ordered in round g is in force from round g + `delay` on; where it is not ready by then, that
    round waits for it, so that runs can be repeated, unless `waits` is false: then it takes effect in
    the first round that begins after it is ready. A plan that fails leaves the old one in force, and a
    warning in the log.

    Parameters
    ----------
    policy : Policy
        One that follows a plan.
    triggers : Triggers
        When a new plan is due.
    delay : int
        Rounds from the order of a plan to its use.
    waits : bool
        Whether a round waits for a plan that is due in it.
    method, risk : str, optional
        How plans are made; by default as the first one was.
    forecast : str or Forecast
        What says how likely clients are to be online: a name of `make_forecast`, or a forecast, which
        may have observed rounds before the first. A plan is made for the mean over the rounds to the
        next order by `every`, or over a window of Eq. 6 without that trigger.
    round_seconds : float
        The time from one round to the next, for forecasts by the time of day.
    executor : Executor, optional
        Where they are made.
    store : PlanStore, optional
        Where they are kept.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> policy = stagewise.make_policy("stagewise-flexible", scenario)
    >>> policy = stagewise.Replanned(policy, stagewise.Triggers(every=2))
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=4)
    >>> decisions = stagewise.solve(scenario, rounds, policy)
    >>> policy.orders, policy.adopted
    ([(1, 'every'), (3, 'every')], [2])
    >>> policy.close()
    """

    def __init__(
        self,
        policy: Policy,
        triggers: Triggers,
        *,
        delay: int = 1,
        waits: bool = True,
        method: str | None = None,
        risk: RiskName = "exact",
        forecast: str | Forecast = "rolling",
        round_seconds: float = ROUND_SECONDS,
        executor: Executor | None = None,
        store: PlanStore | None = None,
    ) -> None:
        super().__init__(policy)
        instance_of("triggers", triggers, Triggers)
        plan = policy.plan
        if plan is None:
            raise StagewiseError(
                f"replanning: needs a policy that follows a plan; {policy.title!r} does not"
            )
        self.triggers = triggers
        self.orders: list[tuple[int, str]] = []
        """Every order so far: (round, the trigger that fired)."""
        self.adopted: list[int] = []
        """The rounds in which a new plan took effect."""
        self._scenario = plan.scenario
        self._delay = whole("delay", delay, 1)
        self._waits = waits
        method = plan.method if method is None else method
        self._options: dict[str, Any] = {"method": method, "risk": risk, "seed": plan.seed}
        self._owned = ThreadPoolExecutor(max_workers=1) if executor is None else None
        self._executor: Executor = executor or self._owned  # type: ignore[assignment]
        self._store = store
        window = self._scenario.estimator_window
        self._forecast = _forecast_for(self._scenario, forecast, round_seconds)
        self._horizon = window if triggers.every is None else triggers.every
        self._recent: deque[BoolArray] = deque(maxlen=window)
        """Who was online in the newest rounds, for the trigger of absence."""
        self._pending: _PendingPlan | None = None
        self._made_for = self._scenario

    def prepare(self, round_: Round) -> None:
        """Take up a plan that is due by now."""
        self._take_up(round_)
        super().prepare(round_)

    def _take_up(self, round_: Round) -> None:
        order = self._pending
        if order is not None and round_.index >= order.index + self._delay:
            if self._waits:
                wait([order.future])
            if order.future.done():
                self._pending = None
                self._adopt(order, round_.index)

    def decide(self, round_: Round) -> Answer:
        self._take_up(round_)  # for those who ask without `prepare`
        answer = super().decide(round_)
        self._forecast.observe(round_.online)
        if self.triggers.absence_gap is not None:
            self._recent.append(round_.online)
        if self._pending is None:
            reason = self._due(round_, answer)
            if reason is not None:
                self.orders.append((round_.index, reason))
                self._order(round_.index, self._as_it_is(round_))
        return answer

    def state(self) -> State:
        own: State = {
            "orders": [list(order) for order in self.orders],
            "adopted": list(self.adopted),
            "forecast": self._forecast.state(),
        }
        if self.triggers.absence_gap is not None:
            own["recent"] = np.array(self._recent, dtype=np.bool_)
        if self.adopted:
            own["made_for"] = _estimates_of(self._made_for)
        if self._pending is not None:
            own["pending"] = _estimates_of(self._pending.made_for)
        return {**super().state(), **own}

    def restore(self, state: State) -> None:
        super().restore(state)
        self.orders = [(index, reason) for index, reason in state["orders"]]
        self.adopted = list(state["adopted"])
        # In older checkpoints what it learned stands beside the rest.
        self._forecast.restore(state.get("forecast", state))
        if self.triggers.absence_gap is not None:
            self._recent = deque(state["recent"], self._recent.maxlen)
        in_force = [index for index, _ in self.orders]
        if "pending" in state:
            self._order(in_force.pop(), self._scenario.as_of(**state["pending"]))
        if "made_for" in state:
            self._made_for = self._scenario.as_of(**state["made_for"])
            kept = (
                None if self._store is None else self._store.load_plan(in_force[-1], self._made_for)
            )
            self._follow(make_plan(self._made_for, **self._options) if kept is None else kept)

    def close(self) -> None:
        """Give up a plan under way."""
        if self._pending is not None:
            self._pending.future.cancel()
            self._pending = None
        if self._owned is not None:
            self._owned.shutdown(wait=False, cancel_futures=True)
        super().close()

    def _adopt(self, order: _PendingPlan, index: int) -> None:
        try:
            plan = order.future.result()
        except Exception as error:
            _LOG.warning("the plan ordered in round %d failed: %s", order.index, error)
            return
        self._made_for = order.made_for
        self.adopted.append(index)
        self._follow(plan)
        if self._store is not None:
            self._store.save_plan(order.index, plan)

    def _follow(self, plan: Plan) -> None:
        # The new plan serves the scenario that the rounds belong to.
        self.policy.follow(replace(plan, scenario=self._scenario))

    def _order(self, index: int, made_for: Scenario) -> None:
        try:
            future = self._executor.submit(make_plan, made_for, **self._options)
        except RuntimeError as error:  # a pool that is broken or has been shut down
            _LOG.warning("the plan ordered in round %d failed: %s", index, error)
            return
        self._pending = _PendingPlan(index, made_for, future)

    def _as_it_is(self, round_: Round) -> Scenario:
        """The scenario with the estimates and costs of now."""
        own = {name: getattr(round_, name) for name in ("cpu_hz", *LINK_RULES)}
        likely = self._forecast.mean_probability(self._horizon)
        return self._scenario.as_of(online_probability=likely, **own)

    def _due(self, round_: Round, answer: Answer) -> str | None:
        triggers, plan = self.triggers, self.plan
        assert plan is not None
        since = round_.index - (self.orders[-1][0] if self.orders else -1)
        if triggers.every is not None and since >= triggers.every:
            return "every"
        if triggers.cost_factor is not None:
            planned = plan.objective + self._scenario.weights.continuity * plan.continuity
            if evaluate(round_, answer.edge_of).cost > triggers.cost_factor * planned:
                return "cost"
        if (
            triggers.change_factor is not None
            and self._change(plan, round_) > triggers.change_factor
        ):
            return "change"
        if (
            triggers.absence_gap is not None
            and self._absence_gap(plan, since) > triggers.absence_gap
        ):
            return "absence"
        return None

    def _change(self, plan: Plan, round_: Round) -> float:
        """By what factor the long-term clients' links or CPUs differ from the plan's; the largest."""
        client = np.flatnonzero(plan.edge_of != UNASSIGNED)
        if len(client) == 0:
            return 1.0
        link = self._scenario.links.find(client, plan.edge_of[client])
        now, then = self._as_it_is(round_), self._made_for
        measured = now.links.measured[link] | then.links.measured[link]
        by_gain, by_cost = link[~measured], link[measured]
        pairs = (
            (now.clients.cpu_hz[client[~measured]], then.clients.cpu_hz[client[~measured]]),
            (now.links.gain[by_gain], then.links.gain[by_gain]),
            (now.costs.delay_s[by_cost], then.costs.delay_s[by_cost]),
            (now.costs.energy_j[by_cost], then.costs.energy_j[by_cost]),
        )
        return max(_factor(new, old) for new, old in pairs)

    def _absence_gap(self, plan: Plan, since: int) -> float:
        long_term = plan.edge_of != UNASSIGNED
        if since < self._scenario.estimator_window or not long_term.any():
            return 0.0
        seen = np.mean(list(self._recent), axis=0)[long_term].mean()
        return float(abs(seen - self._made_for.clients.online_probability[long_term].mean()))


def _forecast_for(scenario: Scenario, forecast: str | Forecast, round_seconds: float) -> Forecast:
    prior = scenario.clients.online_probability
    if isinstance(forecast, Forecast):
        if len(forecast.prior) != len(prior):
            raise StagewiseError(
                f"forecast: is for {len(forecast.prior)} clients: must be for {len(prior)}"
            )
        return forecast
    return make_forecast(
        forecast, prior, window=scenario.estimator_window, round_seconds=round_seconds
    )


def _factor(new: FloatArray, old: FloatArray) -> float:
    """The median factor between two values, where both are known; 1 where none is."""
    known = np.isfinite(new) & np.isfinite(old) & (new > 0) & (old > 0)
    if not known.any():
        return 1.0
    return float(np.exp(np.median(np.abs(np.log(new[known] / old[known])))))


def _estimates_of(scenario: Scenario) -> State:
    """What a plan was made for, as far as it may differ from the scenario the rounds belong to."""
    clients, links = scenario.clients, scenario.links
    known: State = {name: getattr(links, name) for name in LINK_RULES}
    return {
        "online_probability": clients.online_probability,
        "cpu_hz": clients.cpu_hz,
        **known,
    }
