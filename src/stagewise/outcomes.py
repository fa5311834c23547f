"""What a round gave, whoever carried it out: the simulator, a deployment, or nobody."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stagewise.decisions import Decision
from stagewise.fates import Fate
from stagewise.world.checks import FrozenAsGiven
from stagewise.world.costs import UNASSIGNED
from stagewise.world.divergence import kl_divergence
from stagewise.world.scenario import BoolArray, FloatArray, IntArray

State = dict[str, Any]
"""What whoever learns from outcomes must remember: by name, arrays, plain values, lists and
dictionaries of these."""


class RoundAccount(NamedTuple):
    """What was found of all updates of a round that was trained here, and which of them count."""

    client: IntArray
    """By rising number, shape (clients,)."""
    group: IntArray
    """The edge of each."""
    norms: FloatArray
    """Shape (edge rounds, clients)."""
    rises: FloatArray
    """What each does to the biases of the outputs, by `BiasRise`; (edge rounds, clients, 2)."""
    counted: BoolArray
    """Which updates are in their edge's model, shape (edge rounds, clients)."""
    edge_norms: dict[int, float]
    """How far the model of each edge with clients is from the cloud's."""
    edges_counted: frozenset[int]
    """The edges whose models are in the cloud's."""
    reasons: dict[tuple[int, int], str]
    """Why an update is not counted, by edge round and client."""
    edge_reasons: dict[int, str]
    """Why the model of an edge is not."""


class TrainingFigures(NamedTuple):
    """What training tells of the clients that trained, by rising number; shapes are (clients,)."""

    client: IntArray
    loss_before: FloatArray
    """The mean loss of the client's first batch: the first local step of the first edge round."""
    loss_after: FloatArray
    """The mean loss of its last batch, before the last local step of the last edge round."""
    update_norm: FloatArray
    """The L2 norm of the change of all parameters over the local steps of the last edge round."""
    account: RoundAccount | None = None
    """Of a whole round in which somebody trained."""

    @classmethod
    def of(cls, clients: IntArray, edge_rounds: Sequence[FloatArray]) -> "TrainingFigures":
        """The figures of a round from those of its edge rounds, as a backend's `train` gives them."""
        order = np.argsort(clients)
        first, last = edge_rounds[0][:, order], edge_rounds[-1][:, order]
        return cls(clients[order], first[0], last[1], last[2])

    @classmethod
    def none(cls) -> "TrainingFigures":
        """Of a round in which nobody trained."""
        return cls.of(np.empty(0, np.int64), [np.empty((3, 0))])


@dataclass(frozen=True, eq=False)
class ClientOutcomes(FrozenAsGiven):
    """What became of the clients that were asked to train, one entry of every array each.

    A number that nobody knows is NaN.
    """

    client: IntArray
    """Their numbers in the scenario, ascending."""
    edge: IntArray
    samples: IntArray
    loss_before: FloatArray
    """On its own data: of the first batch of the round."""
    loss_after: FloatArray
    """On its own data: of the last batch of the round."""
    update_norm: FloatArray
    """The Euclidean norm of its last update."""
    seconds: FloatArray
    """From the order to its last update, or what the scenario predicts where nothing is measured."""
    joules: FloatArray
    """By the scenario's costs: nothing measures joules."""
    bytes: IntArray
    """Of models, both ways."""
    fate: tuple[Fate, ...]
    """`counted` if any of its updates is in its edge's mean, else what became of the last."""

    def __len__(self) -> int:
        return len(self.client)


@dataclass(frozen=True, eq=False)
class EdgeOutcomes(FrozenAsGiven):
    """What became of the edges, one entry of every array each."""

    data: IntArray
    """Samples behind its model: of the clients counted in its last edge round that has any."""
    kld: FloatArray
    """The divergence of these samples; infinite without any."""
    fate: tuple[Fate | None, ...]
    """None for an edge that was asked for nothing."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """A decision and what came of it: what a policy may learn from.

    Parameters
    ----------
    decision : Decision
        What was decided.
    clients : ClientOutcomes
        For each client that was asked to train: samples, losses before and after, norm of its
        update, seconds, joules, bytes and fate.
    edges : EdgeOutcomes
        For each edge: data, divergence and fate.
    accuracy, loss : float, optional
        On the test set; None in a round that is not evaluated.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=1, seed=1)
    >>> policy = stagewise.make_policy("fedcs", scenario)
    >>> [played] = stagewise.run_rounds(policy, rounds)
    >>> len(played.outcome.clients) == len(played.decision.assignment)
    True
    >>> set(played.outcome.clients.fate)
    {'counted'}
    """

    decision: Decision
    clients: ClientOutcomes
    edges: EdgeOutcomes
    accuracy: float | None = None
    loss: float | None = None


def trains_anything(decision: Decision) -> bool:
    """Whether an edge counts in the cloud's mean (Eq. 3); without one nobody needs to train."""
    weights = decision.answer.edge_weights
    return weights is None or bool((weights * decision.evaluation.data).any())


def expected_outcome(
    decision: Decision, figures: TrainingFigures | None = None, model_bytes: int = 0
) -> Outcome:
    """The outcome of a round in which everything goes as decided.

    `figures` are what training told, where something was trained: then a model of `model_bytes`
    went to each client and back in every edge round. Where no edge counts nobody trains, and all
    is lost. An update that was left out of its edge's model is rejected.
    """
    if figures is None:
        return _AsDecided(decision)
    clients = _expected_clients(decision, figures, model_bytes)
    if figures.account is None:
        return Outcome(decision, clients, _expected_edges(decision, clients))
    return _with_account(decision, clients, figures.account)


class _AsDecided(Outcome):
    """What is expected of clients and edges is worked out when it is asked for: few policies do."""

    def __init__(self, decision: Decision, **given: Any) -> None:
        vars(self).update(given, decision=decision)

    @cached_property
    def clients(self) -> ClientOutcomes:
        return _expected_clients(self.decision, None, 0)

    @cached_property
    def edges(self) -> EdgeOutcomes:
        return _expected_edges(self.decision, self.clients)


def _expected_clients(
    decision: Decision, figures: TrainingFigures | None, model_bytes: int
) -> ClientOutcomes:
    round_, scenario = decision.round, decision.scenario
    client = np.flatnonzero(decision.edge_of != UNASSIGNED)
    edge = decision.edge_of[client]
    link = scenario.links.find(client, edge)
    anything = trains_anything(decision)
    fate: Fate = "counted" if anything else "lost"
    seconds = scenario.edge_rounds * round_.costs.delay_s[link]
    joules = scenario.edge_rounds * round_.costs.energy_j[link]
    trained = np.zeros(len(client), np.bool_)
    if figures is not None:
        trained = np.isin(client, figures.client)
    return ClientOutcomes(
        client=client,
        edge=edge,
        samples=scenario.clients.data[client],
        **_learned(client, figures),
        seconds=np.where(anything, seconds, np.nan),
        joules=np.where(anything, joules, 0.0),
        bytes=np.where(trained, 2 * scenario.edge_rounds * model_bytes, 0),
        fate=(fate,) * len(client),
    )


def _expected_edges(decision: Decision, clients: ClientOutcomes) -> EdgeOutcomes:
    return edge_outcomes(decision, clients, np.full(len(clients), trains_anything(decision)))


def _with_account(decision: Decision, clients: ClientOutcomes, account: RoundAccount) -> Outcome:
    """The outcome where some updates, or the models of some edges, may have been left out."""
    trained = np.isin(clients.client, account.client)
    fates = np.full(len(clients), "counted", dtype=object)
    fates[trained] = [
        "rejected" if not any_counted else "counted" if edge in account.edges_counted else "lost"
        for any_counted, edge in zip(np.any(account.counted, axis=0), account.group, strict=True)
    ]
    judged = replace(clients, fate=tuple(fates))
    behind, fate_of = np.ones(len(clients), np.bool_), dict[int, Fate]()
    members = np.zeros(len(account.client), np.bool_)
    for edge in account.edge_norms:
        own = account.group == edge
        with_any = np.flatnonzero(account.counted[:, own].any(axis=1))
        if with_any.size:  # behind a model are those of the last edge round that has any
            members |= own & account.counted[with_any[-1]]
        if edge not in account.edges_counted:
            fate_of[edge] = "rejected" if with_any.size else "lost"
    behind[trained] = members
    return Outcome(decision, judged, edge_outcomes(decision, judged, behind, fate_of))


def _learned(client: IntArray, figures: TrainingFigures | None) -> dict[str, FloatArray]:
    """The figures of `client`, in its order; NaN for those that training says nothing of."""
    names = ("loss_before", "loss_after", "update_norm")
    known = {name: np.full(len(client), np.nan) for name in names}
    if figures is not None:
        _, place, source = np.intersect1d(client, figures.client, return_indices=True)
        for name in names:
            known[name][place] = getattr(figures, name)[source]
    return known


def edge_outcomes(
    decision: Decision,
    clients: ClientOutcomes,
    behind: BoolArray,
    fate_of: dict[int, Fate] | None = None,
) -> EdgeOutcomes:
    """The edges' side of what became of `clients`; `behind` are those behind their edge's model.

    `fate_of` says what became of an edge's model where its clients do not tell.
    """
    scenario = decision.scenario
    known = fate_of or {}
    asked = set(clients.edge.tolist())
    lost = [edge for edge, fate in known.items() if fate != "counted"]
    counted = behind & ~np.isin(clients.edge, lost) if lost else behind
    sums = np.zeros((len(scenario.edges), scenario.labels), dtype=np.int64)
    np.add.at(sums, clients.edge[counted], scenario.clients.label_counts[clients.client[counted]])
    data = sums.sum(axis=1)
    fate: tuple[Fate | None, ...] = tuple(
        known.get(edge, "counted" if data[edge] else "lost") if edge in asked else None
        for edge in range(len(scenario.edges))
    )
    return EdgeOutcomes(data=data, kld=kl_divergence(sums, scenario.target), fate=fate)
