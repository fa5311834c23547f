"""What a round's updates are judged by, and the judgement, wherever they arrive."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

from stagewise.robust.labels import HIGH_RISE, BiasRise, LabelRule, judge_rise
from stagewise.robust.norms import TOO_LARGE, Name, NormLimits, judge_norms
from stagewise.robust.rules import Aggregator, judges


@dataclass(frozen=True, eq=False)
class Safeguards:
    """How a round's models are combined, at edges and at the cloud, and what is left out."""

    aggregator: Aggregator = "mean"
    updates: NormLimits | None = None
    """Of clients' updates; None as long as too little is known: then by the updates beside them."""
    edges: NormLimits | None = None
    """The same of edges."""
    offenders: frozenset[int] = frozenset()
    """Clients, by number, that have sent an update that was rejected by what it did to the biases."""
    labels: LabelRule | None = None
    """What clients' updates may do to the biases of the outputs; None where that is not known."""


class UpdateFigures(NamedTuple):
    """What its receiver finds of an update."""

    norm: float
    biases: BiasRise = BiasRise()


class Rejection(NamedTuple):
    """Why an update is rejected."""

    reason: str
    by_biases: bool
    """Whether what it does to the biases of the outputs is a reason."""


def judge_updates(
    updates: Mapping[Name, UpdateFigures],
    learned: NormLimits | None,
    offenders: Set[Name],
    aggregator: Aggregator,
) -> dict[Name, Rejection]:
    """Which updates of an edge round are rejected before the `aggregator` has them, and why."""
    norms = {name: update.norm for name, update in updates.items()}
    if not judges(aggregator):
        return {name: Rejection(reason, False) for name, reason in _no_models(norms).items()}
    high = {
        name: f"it raises the biases of the outputs by {update.biases.rise:.2f} of what it can"
        for name, update in updates.items()
        # A model that knows nothing yet lets everybody raise much.
        if learned is not None and update.biases.rise > HIGH_RISE
    }
    doubts = dict.fromkeys(offenders, "it has sent a wrong one before") | high
    impossible = {name: judge_rise(update.biases) for name, update in updates.items()}
    by_norm = judge_norms(norms, learned, doubts)
    return {name: Rejection(reason, name in high) for name, reason in by_norm.items()} | {
        name: Rejection(reason, True) for name, reason in impossible.items() if reason
    }


def judge_edges(norms: Mapping[Name, float], guard: Safeguards) -> dict[Name, str]:
    """Which edges' models are rejected at the cloud by how far they are from its own, and why."""
    return judge_norms(norms, guard.edges) if judges(guard.aggregator) else _no_models(norms)


def _no_models(norms: Mapping[Name, float]) -> dict[Name, str]:
    """Those that are too large to compute, or not numbers: no models, whoever is trusted."""
    return {
        name: "its update has no finite norm"
        for name, norm in norms.items()
        if not norm < TOO_LARGE
    }
