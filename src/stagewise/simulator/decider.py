"""Each round's decision: the policy, the remedy where it fails, and the plan that it follows."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from stagewise.decisions import Decision, make_decision
from stagewise.errors import StagewiseError, shown
from stagewise.methods.stagewise import StagewisePolicy
from stagewise.plan_b.remedies import Remedy, apply_remedy, failing_edges
from stagewise.plans import Plan
from stagewise.policy import Policy, PolicyFactory, decide_with, policy_factory, policy_names
from stagewise.simulator.config import Replanning
from stagewise.simulator.planning import SavedPlan, ScheduledReplanner
from stagewise.warm_up import warm_up
from stagewise.world.checks import finite
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray, Scenario

ALIASES = {"pool": "pool-flexible"}
"""Shorter names of policies."""

NewPlan = Callable[[int, Plan], None]
"""Told of a plan that takes effect, and the round it was ordered in."""


def policy_name(policy: str | Policy | PolicyFactory) -> str:
    """What a run calls `policy`."""
    if isinstance(policy, str):
        return policy if policy in policy_names() else ALIASES.get(policy, policy)
    return str(getattr(policy, "__name__", type(policy).__name__))


def make_policy(policy: str | Policy | PolicyFactory, scenario: Scenario, seed: int) -> Policy:
    """The policy of that name, or by that factory, or the policy itself; ready to decide."""
    warm_up()
    if isinstance(policy, str):
        return policy_factory(policy_name(policy))(scenario, seed=seed, seconds=None)
    if hasattr(policy, "decide") and not isinstance(policy, type):
        return cast(Policy, policy)
    if callable(policy):
        return policy(scenario, seed=seed, seconds=None)
    raise StagewiseError(
        f"policy = {shown(policy)}: must be a name, a policy, or a function that makes one"
    )


def with_diversity(policy: Policy, diversity: float) -> Policy:
    """The policy with a weight on who has served; 0 leaves it as it is."""
    if finite("diversity", diversity, 0) == 0:
        return policy
    if not isinstance(policy, StagewisePolicy) or policy.method != "pool":
        raise StagewiseError(f"diversity = {diversity:g}: needs a policy that follows the pool")
    return replace(policy, diversity=diversity)


class Decider:
    """Decides round after round; in between it learns who came, and has plans made anew."""

    def __init__(
        self,
        policy: Policy,
        name: str,
        remedy: Remedy | None,
        replanning: Replanning,
        on_new_plan: NewPlan,
    ) -> None:
        self._policy = policy
        self._name = name
        self._remedy = remedy
        self._on_new_plan = on_new_plan
        self._served: list[IntArray] = []
        self._replanner: ScheduledReplanner | None = None
        if isinstance(policy, StagewisePolicy) and replanning.wanted:
            self._replanner = ScheduledReplanner(policy.plan, replanning)

    @property
    def orders(self) -> list[tuple[int, str]]:
        """Every order of a new plan so far: the round, and the trigger that fired."""
        return [] if self._replanner is None else self._replanner.orders

    @property
    def adopted(self) -> list[int]:
        """The rounds in which a new plan took effect."""
        return [] if self._replanner is None else self._replanner.adopted

    def decide(self, round_: Round, index: int) -> Decision:
        """The decision of round `index`; a plan that is due by now is taken up first."""
        self._take_up_plan(index)
        decision = decide_with(_Asked(self._policy), round_, index, self._name)
        if self._remedy is not None and not decision.feasible:
            decision = self._remedied(decision, round_)
        self._remember(decision.edge_of)
        if self._replanner is not None:
            self._replanner.learn(round_, decision)
        return decision

    def restore(
        self,
        rounds: Sequence[Round],
        decided: Sequence[IntArray],
        orders: Sequence[tuple[int, str]],
        adopted: Sequence[int],
        saved: SavedPlan,
    ) -> None:
        """Be as after `rounds`, in which the clients served as `decided` says."""
        for index, (round_, edge_of) in enumerate(zip(rounds, decided, strict=True)):
            if _is_foreign(self._policy):
                self._policy.decide(round_, index)
            self._remember(edge_of)
        if self._replanner is not None:
            self._replanner.restore(rounds, orders, adopted, saved)
            self._follow(self._replanner.plan)

    def close(self) -> None:
        """Give up a plan under way."""
        if self._replanner is not None:
            self._replanner.close()

    def _take_up_plan(self, index: int) -> None:
        if self._replanner is None:
            return
        new = self._replanner.begin(index)
        if new is not None:
            self._follow(self._replanner.plan)
            self._on_new_plan(self._replanner.ordered_in, new)

    def _follow(self, plan: Plan) -> None:
        assert isinstance(self._policy, StagewisePolicy)
        self._policy = replace(self._policy, plan=plan)
        past, self._served = self._served, []
        for edge_of in past:
            self._remember(edge_of)

    def _remember(self, edge_of: IntArray) -> None:
        """Tell a policy that wants to know who really served, after any remedy."""
        remember = getattr(self._policy, "remember", None)
        if remember is not None:
            remember(edge_of)
            self._served.append(edge_of)

    def _remedied(self, decision: Decision, round_: Round) -> Decision:
        began = time.perf_counter()
        edge_of = self._edges_after_remedy(decision, round_)
        taken_ms = 1000 * (time.perf_counter() - began)
        return make_decision(
            round_,
            edge_of,
            index=decision.round,
            method=decision.method,
            decision_ms=decision.decision_ms + taken_ms,
            lower_bound=decision.lower_bound,
        )

    def _edges_after_remedy(self, decision: Decision, round_: Round) -> IntArray:
        policy, remedy, edge_of = self._policy, self._remedy, decision.edge_of
        if isinstance(policy, StagewisePolicy) and remedy is not None:
            return apply_remedy(remedy, policy.plan, round_, decision.round, policy.mode, edge_of)
        if remedy == "drop":
            failing = failing_edges(round_.scenario, decision.evaluation)
            return np.where((edge_of != UNASSIGNED) & failing[edge_of], UNASSIGNED, edge_of)
        return edge_of


class _Asked:
    """A policy that is asked and not told anything."""

    def __init__(self, policy: Policy) -> None:
        self.decide = policy.decide


def _is_foreign(policy: Policy) -> bool:
    """Our own policies depend on the round and on who served; of another's we cannot know."""
    if type(policy).__module__.partition(".")[0] != "stagewise":
        return True
    within = getattr(policy, "policy", None)
    return within is not None and _is_foreign(within)
