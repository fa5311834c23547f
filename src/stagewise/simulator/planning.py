"""Plan A beside training: ordered in one round, in force from a later one that is known beforehand."""

from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import replace

from stagewise.decisions import Decision
from stagewise.plan_a.planners import plan as make_plan
from stagewise.plans import Plan
from stagewise.replanning import Replanner
from stagewise.simulator.config import Replanning
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario

SavedPlan = Callable[[int, Scenario], Plan | None]
"""The plan that was ordered in a round for a scenario, if it has been saved."""


class ScheduledReplanner(Replanner):
    """A `Replanner` whose plans take effect in a round known beforehand, for reproducible runs.

    A plan ordered in round g is in force from round g + delay on. It is computed while the rounds
    between are trained; where it is not ready in time, that round waits for it.
    """

    def __init__(self, plan: Plan, wanted: Replanning) -> None:
        super().__init__(plan, wanted.triggers, lag=wanted.delay_rounds)

    def begin(self, index: int) -> Plan | None:
        """The plan that takes effect in round `index`, for the scenario it was made for."""
        self._index = index
        ready = self._under_way
        if ready is None or index < self._ordered_in + self._lag:
            return None
        wait([ready])
        adopted = len(self.adopted)
        self._adopt()
        if len(self.adopted) == adopted:
            return None
        return replace(self.plan, scenario=self._made_for)

    @property
    def ordered_in(self) -> int:
        """The round of the newest order."""
        return self._ordered_in

    def learn(self, round_: Round, decision: Decision) -> None:
        """Take in a round, and order a new plan if one is due."""
        self._estimator.observe(round_.online)
        if self._under_way is None:
            reason = self._due(round_, decision)
            if reason is not None:
                self._order(round_, reason)

    def restore(
        self,
        rounds: Sequence[Round],
        orders: Sequence[tuple[int, str]],
        adopted: Sequence[int],
        saved: SavedPlan,
    ) -> None:
        """Be as after `rounds`, in which these orders were made and these plans taken up."""
        in_force = adopted[-1] - self._lag if adopted else None
        pending = orders[-1] if orders and orders[-1][0] + self._lag >= len(rounds) else None
        self.orders = list(orders if pending is None else orders[:-1])
        self.adopted = list(adopted)
        for index, round_ in enumerate(rounds):
            self._index = index
            self._estimator.observe(round_.online)
            if index == in_force:
                self._made_for = self._as_it_is(round_)
                plan = saved(index, self._made_for) or make_plan(
                    self._made_for, method=self._method, risk=self._risk, seed=self.plan.seed
                )
                self.plan = replace(plan, scenario=self.plan.scenario)
            if pending is not None and index == pending[0]:
                self._order(round_, pending[1])
