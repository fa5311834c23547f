"""Plan B where edges or links are gone: what is left is a smaller world, decided like any other."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from stagewise.deploy.availability import ObservedRound
from stagewise.errors import StagewiseError, shown
from stagewise.methods.stagewise import StagewisePolicy
from stagewise.plan_b.remedies import Remedy, apply_remedy, failing_edges
from stagewise.plan_b.repair import repair
from stagewise.plans import Plan
from stagewise.policy import Policy, WithBound
from stagewise.problem.evaluation import evaluate
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import BoolArray, IntArray, Links, Scenario

MakePolicy = Callable[[Scenario], Policy]


def deploy_remedy(remedy: Remedy) -> Remedy:
    """`remedy` if a deployment can follow it: edges average by data, so nothing is reweighted."""
    if remedy not in ("lend", "drop"):
        raise StagewiseError(f"remedy = {shown(remedy)}: must be lend or drop in a deployment")
    return remedy


@dataclass(frozen=True, eq=False)
class Remaining:
    """The edges and links that are left, as a scenario of their own with all clients in it."""

    round: Round
    edges: IntArray
    """The number of each edge that is left in the whole scenario."""
    links: BoolArray
    """Which links of the whole scenario are left."""

    def inwards(self, edge_of: IntArray) -> IntArray:
        """An assignment of the whole scenario, without those whose link is gone."""
        number = np.full(int(max(self.edges.max(), edge_of.max())) + 1, UNASSIGNED, dtype=np.int64)
        number[self.edges] = np.arange(len(self.edges))
        inner = np.where(edge_of == UNASSIGNED, UNASSIGNED, number[edge_of])
        serving = np.flatnonzero(inner != UNASSIGNED)
        gone = self.round.scenario.links.find(serving, inner[serving]) < 0
        inner[serving[gone]] = UNASSIGNED
        return inner

    def outwards(self, inner: IntArray) -> IntArray:
        """An assignment to the edges that are left, in the numbers of the whole scenario."""
        return np.where(inner == UNASSIGNED, UNASSIGNED, self.edges[inner])

    def plan(self, plan: Plan) -> Plan:
        """What is left of a plan."""
        return replace(
            plan,
            scenario=self.round.scenario,
            edge_of=self.inwards(plan.edge_of),
            kld_risk=plan.kld_risk[self.edges],
            data_risk=plan.data_risk[self.edges],
            library=None,
        )


def remaining(round_: ObservedRound) -> Remaining | None:
    """What is left in a round; None where no link is.

    An edge that no client reaches is gone. Clients that are offline keep their links to the others.
    """
    scenario, links = round_.scenario, round_.scenario.links
    reachable = (
        np.ones(len(links), dtype=np.bool_) if round_.reachable is None else round_.reachable
    )
    edges = np.unique(links.edge[reachable])
    if len(edges) == 0:
        return None
    kept = np.isin(links.edge, edges) & (reachable | ~round_.online[links.client])
    start = np.zeros(len(links.start), dtype=np.int64)
    np.cumsum(np.bincount(links.client[kept], minlength=len(start) - 1), out=start[1:])
    whole = scenario.edges
    left = replace(
        scenario,
        edges=replace(
            whole,
            ids=tuple(whole.ids[edge] for edge in edges),
            capacity=whole.capacity[edges],
            bandwidth_hz=whole.bandwidth_hz[edges],
            uplink_delay_s=whole.uplink_delay_s[edges],
            uplink_energy_j=whole.uplink_energy_j[edges],
            position_m=None if whole.position_m is None else whole.position_m[edges],
        ),
        links=Links(start, np.searchsorted(edges, links.edge[kept]), links.gain[kept]),
        file_sha256=None,
    )
    gain = None if round_.gain is None else round_.gain[kept]
    return Remaining(Round(left, round_.online, round_.cpu_hz, gain), edges, kept)


@dataclass(frozen=True, eq=False)
class LivePlanPolicy(StagewisePolicy):
    """Follows a plan as far as its edges are there.

    With `lend` the clients of an edge that is gone may serve where they are needed, over the links
    that are left; with `drop` the edge is left out of the round and its clients do not train.
    """

    remedy: Remedy = "lend"

    def decide(self, round_: Round, index: int) -> IntArray:
        if not isinstance(round_, ObservedRound) or round_.whole:
            return self._remedied(super().decide(round_, index), self.plan, round_, index)
        if self.remedy == "drop":
            answer = without_missing_links(super().decide(round_, index), round_)
            return self._remedied(answer, self.plan, round_, index)
        left = remaining(round_)
        if left is None:
            return nobody(round_)
        plan = left.plan(self.plan)
        answer = repair(plan, left.round, index, self.mode)
        return left.outwards(self._remedied(answer, plan, left.round, index))

    def _remedied(self, edge_of: IntArray, plan: Plan, round_: Round, index: int) -> IntArray:
        return apply_remedy(self.remedy, plan, round_, index, self.mode, edge_of)


class LivePolicy:
    """Any other policy: it is made anew for the edges and links that are left.

    `policy` is the one for the whole scenario.
    """

    def __init__(self, policy: Policy, make: MakePolicy, remedy: Remedy) -> None:
        self.policy, self._make, self._remedy = policy, make, remedy
        self._left: tuple[bytes, Policy] | None = None

    def decide(self, round_: Round, index: int) -> "IntArray | WithBound":
        if not isinstance(round_, ObservedRound) or round_.whole:
            answer = self.policy.decide(round_, index)
            return answer if self._remedy != "drop" else _drop_failing(_edges(answer), round_)
        if self._remedy == "drop":
            answer = without_missing_links(_edges(self.policy.decide(round_, index)), round_)
            return _drop_failing(answer, round_)
        left = remaining(round_)
        if left is None:
            return nobody(round_)
        # A bound of what is left is none of the whole.
        return left.outwards(_edges(self._policy_for(left).decide(left.round, index)))

    def remember(self, edge_of: IntArray) -> None:
        remember = getattr(self.policy, "remember", None)
        if remember is not None:
            remember(edge_of)

    def _policy_for(self, left: Remaining) -> Policy:
        key = left.links.tobytes()
        if self._left is None or self._left[0] != key:
            self._left = key, self._make(left.round.scenario)
        return self._left[1]


def without_missing_links(edge_of: IntArray, round_: ObservedRound) -> IntArray:
    """`edge_of` without the clients whose link to their edge is not there."""
    if round_.reachable is None:
        return edge_of
    serving = np.flatnonzero(edge_of != UNASSIGNED)
    link = round_.scenario.links.find(serving, edge_of[serving])
    kept = edge_of.copy()
    kept[serving[~round_.reachable[link]]] = UNASSIGNED
    return kept


def nobody(round_: Round) -> IntArray:
    """The assignment of no client."""
    return np.full(len(round_.scenario.clients), UNASSIGNED, dtype=np.int64)


def _drop_failing(edge_of: IntArray, round_: Round) -> IntArray:
    failing = failing_edges(round_.scenario, evaluate(round_.scenario, round_.costs, edge_of))
    return np.where((edge_of != UNASSIGNED) & failing[edge_of], UNASSIGNED, edge_of)


def _edges(answer: "IntArray | WithBound") -> IntArray:
    return answer.edge_of if isinstance(answer, WithBound) else answer
