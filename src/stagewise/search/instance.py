"""A problem as the compiled search sees it: flat arrays, and the statement in a few numbers."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from stagewise.compiled import writable
from stagewise.problem.risk_kernels import LabelRows
from stagewise.problem.statement import Problem
from stagewise.randomness import generator
from stagewise.world.costs import UNASSIGNED, LinkCosts
from stagewise.world.scenario import BoolArray, FloatArray, IntArray, Scenario

# What is minimised.
COST, PLAN_COST, MEAN_KLD, MOST_CLIENTS = 0, 1, 2, 3

# What the search may do with a client.
FREE, AT_ITS_EDGE, MUST_SERVE = 0, 1, 2

NO_RISK = 0


class Outside(NamedTuple):
    """What serves beyond the instance, where it is a part of a larger one: it counts in the value."""

    delay: float = 0.0
    log_probability: float = 0.0
    serving: float = 0.0
    never: float = 0.0
    """How many of those that serve are never online."""


class Instance(NamedTuple):
    """What never changes during a search. Per-round costs already include the edge rounds L."""

    link_start: IntArray
    link_edge: IntArray
    link_client: IntArray
    link_delay: FloatArray
    link_energy: FloatArray
    candidate_start: IntArray
    """Edge j may recruit over the links candidate[candidate_start[j]:candidate_start[j+1]]."""
    candidate: IntArray
    """Cheapest first within an edge."""
    rows: LabelRows
    target: FloatArray
    log_target: FloatArray
    probability: FloatArray
    log_probability: FloatArray
    capacity: IntArray
    in_round: BoolArray
    """Whether an edge is part of the round: any other needs no clients and gets none."""
    edges_in_round: int
    uplink_delay: FloatArray
    uplink_energy: FloatArray
    lock: npt.NDArray[np.int8]
    zobrist: npt.NDArray[np.uint64]
    """A random word for each client; an edge's members are known by the xor of theirs."""
    samples: npt.NDArray[np.uint64]
    sample_count: int
    objective: int
    price_scale: float
    """What one client costs, roughly: the scale of temperatures and penalties."""
    delay_weight: float
    energy_weight: float
    continuity_weight: float
    count_weight: float
    """What one client more is worth when the number of clients is maximised."""
    risk: int
    kld_limit: float
    data_limit: float
    kld_risk_limit: float
    data_risk_limit: float
    keep_kld: bool
    empty_violation: float
    """The violation of an edge without clients: more than any edge with clients can have.

    (An edge that is not part of the round has none, see `empty_violation` in `search.state`.)
    """
    outside: Outside


class _Shared(NamedTuple):
    """The fields that all instances of a scenario have in common."""

    rows: LabelRows
    target: FloatArray
    log_target: FloatArray
    probability: FloatArray
    log_probability: FloatArray
    capacity: IntArray
    zobrist: npt.NDArray[np.uint64]


_shared: WeakKeyDictionary[Scenario, _Shared] = WeakKeyDictionary()
_orders: WeakKeyDictionary[Scenario, IntArray] = WeakKeyDictionary()


def _shared_by(scenario: Scenario) -> _Shared:
    if scenario not in _shared:
        clients = scenario.clients
        probability = writable(clients.online_probability)
        _shared[scenario] = _Shared(
            rows=LabelRows(*(writable(part) for part in clients.label_rows)),
            target=writable(scenario.target),
            log_target=np.log(scenario.target),
            probability=probability,
            log_probability=np.log(np.where(probability > 0, probability, 1.0)),
            capacity=writable(scenario.edges.capacity),
            zobrist=generator(0, "zobrist").integers(2**64, size=len(clients), dtype=np.uint64),
        )
    return _shared[scenario]


def build_instance(
    problem: Problem,
    *,
    objective: int | None = None,
    keep_kld: bool = True,
    usable: BoolArray | None = None,
    pinned: int = AT_ITS_EDGE,
) -> Instance:
    """The compiled form of `problem`.

    `objective` replaces the problem's own, `keep_kld` false drops the constraint on KLD, `usable`
    restricts the links, and `pinned` says what the search may do with the clients of (12d).
    """
    scenario, round_, risk = problem.scenario, problem.round, problem.risk
    costs = round_.costs
    links, edges, clients, limits = (
        scenario.links,
        scenario.edges,
        scenario.clients,
        scenario.limits,
    )
    lock = np.zeros(len(clients), dtype=np.int8)
    if problem.pinned is not None:
        lock[problem.pinned != UNASSIGNED] = pinned
    if objective is None:
        objective = COST if risk is None else PLAN_COST
    usable = round_.usable if usable is None else usable & round_.usable
    if problem.pinned is not None and pinned == AT_ITS_EDGE:
        place = problem.pinned[links.client]
        usable = usable & ((place == UNASSIGNED) | (place == links.edge))
    repeat = float(scenario.edge_rounds)
    delay, energy = repeat * costs.delay_s, repeat * costs.energy_j
    weights, price = scenario.weights, _link_prices(scenario, costs)
    if usable.all():
        kept = np.arange(len(links))
        start = writable(links.start)
    else:
        kept = np.flatnonzero(usable)
        start = np.concatenate([[0], np.cumsum(usable)])[links.start]
    link_edge = links.edge[kept]
    price = price[kept]
    candidate_start = np.zeros(len(edges) + 1, dtype=np.int64)
    np.cumsum(np.bincount(link_edge, minlength=len(edges)), out=candidate_start[1:])
    max_members = int(np.minimum(edges.capacity, np.diff(candidate_start)).max(initial=0))
    shared = _shared_by(scenario)
    largest_cost = weights.delay * (delay.max(initial=0) + edges.uplink_delay_s.max()) + (
        weights.energy * (float(edges.uplink_energy_j.sum()) + float(energy.sum()))
    )
    return Instance(
        **shared._asdict(),
        link_start=start,
        link_edge=link_edge,
        link_client=links.client[kept],
        link_delay=delay[kept],
        link_energy=energy[kept],
        candidate_start=candidate_start,
        candidate=_cheapest_first(problem, usable, link_edge, price),
        in_round=writable(round_.edges_up),
        edges_in_round=int(round_.edges_up.sum()),
        uplink_delay=np.where(round_.edges_up, edges.uplink_delay_s, 0.0),
        uplink_energy=np.where(round_.edges_up, edges.uplink_energy_j, 0.0),
        lock=lock,
        samples=np.zeros((0, 1), dtype=np.uint64)
        if risk is None
        else risk.samples_for(max_members),
        sample_count=1 if risk is None else risk.sample_count,
        objective=objective,
        price_scale=_median(price) if len(price) else 1.0,
        delay_weight=float(weights.delay),
        energy_weight=float(weights.energy),
        continuity_weight=float(weights.continuity),
        count_weight=1.0 + float(largest_cost),
        risk=NO_RISK if risk is None else risk.measure,
        kld_limit=float(limits.kld_max if risk is None else risk.kld_limit),
        data_limit=float(limits.data_min if risk is None else risk.data_limit),
        kld_risk_limit=float(limits.kld_risk),
        data_risk_limit=float(limits.data_risk),
        keep_kld=keep_kld,
        empty_violation=2.0 + float(-shared.log_target.min()),
        outside=Outside(),
    )


def _link_prices(scenario: Scenario, costs: LinkCosts) -> FloatArray:
    """What delay and energy of a round over each link cost together."""
    repeat, weights = float(scenario.edge_rounds), scenario.weights
    return weights.delay * (repeat * costs.delay_s) + weights.energy * (repeat * costs.energy_j)


def _cheapest_first(
    problem: Problem, usable: BoolArray, link_edge: IntArray, price: FloatArray
) -> IntArray:
    """The usable links by edge and price; the first of equals first."""
    scenario = problem.scenario
    if problem.round.costs is not scenario.costs:
        return np.lexsort((price, link_edge))
    every = _usual_order(scenario)
    return (np.cumsum(usable) - 1)[every[usable[every]]]


def _usual_order(scenario: Scenario) -> IntArray:
    """All links in the order they have at the scenario's own costs: sorting millions takes a second."""
    if scenario not in _orders:
        price = _link_prices(scenario, scenario.costs)
        _orders[scenario] = np.lexsort((price, scenario.links.edge))
    return _orders[scenario]


def _median(values: FloatArray) -> float:
    """NumPy's, to the last bit, in a third of its time for the few hundred that a decision asks for."""
    middle = (len(values) - 1) // 2, len(values) // 2
    lower, upper = np.partition(values, middle)[list(middle)]
    return float((lower + upper) / 2)


def unassigned(clients: int) -> IntArray:
    """An assignment that selects nobody."""
    return np.full(clients, UNASSIGNED, dtype=np.int64)
