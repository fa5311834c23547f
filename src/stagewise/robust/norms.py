"""How large an update may be: limits learned from the norms of the rounds before.

Norms are compared by their logarithms, since they spread over factors: the middle is the median, the
spread the median distance from it, scaled as a standard deviation. A part of the norms may be wrong.
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

import msgspec
import numpy as np

from stagewise.robust.rules import Aggregator
from stagewise.world.scenario import FloatArray

Name = TypeVar("Name", bound=Hashable)

LEAST_NORMS = 8
"""With fewer norms of earlier rounds an update is compared with those beside it."""

REJECT_SPREADS, REJECT_FACTOR = 6.0, 50.0
"""An update is rejected beyond so many spreads above the median, but not below that many times it."""
REPEAT_SPREADS, REPEAT_FACTOR = 3.0, 6.0
"""The same for an update that follows one beyond this lower limit: one may be chance, two are not."""

_AS_DEVIATION = 1.4826


class NormLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest norms that updates may have."""

    reject: float
    """What lies beyond it is rejected."""
    repeat: float
    """What lies beyond it is counted once: the client's next update must not."""


class Safeguards(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a round's models are combined, at edges and at the cloud, and what is left out."""

    aggregator: Aggregator = "mean"
    updates: NormLimits | None = None
    """Of clients' updates; None as long as too little is known: then by the updates beside them."""
    edges: NormLimits | None = None
    """The same of edges."""
    repeating: tuple[int, ...] = ()
    """Clients, by number, whose last update was beyond `NormLimits.repeat`."""


def learned_limits(norms: FloatArray) -> NormLimits | None:
    """The limits that follow from the norms of earlier rounds; None from too few."""
    known = norms[np.isfinite(norms) & (norms > 0)]
    if len(known) < LEAST_NORMS:
        return None
    logs = np.log(known)
    middle = np.median(logs)
    spread = _AS_DEVIATION * np.median(np.abs(logs - middle))
    above = (
        max(REJECT_SPREADS * spread, np.log(REJECT_FACTOR)),
        max(REPEAT_SPREADS * spread, np.log(REPEAT_FACTOR)),
    )
    return NormLimits(*(float(np.exp(middle + more)) for more in above))


def peer_limits(norms: FloatArray) -> NormLimits:
    """Limits by the norms beside it, where nothing is known from before.

    The median of an even number is the lower of the two in the middle: of two updates the smaller is
    believed. One that has no other beside it may be of any size.
    """
    known = np.sort(norms[np.isfinite(norms) & (norms > 0)])
    if len(norms) < 2 or len(known) == 0:
        return NormLimits(np.finfo(np.float64).max, np.finfo(np.float64).max)
    middle = float(known[(len(known) - 1) // 2])
    return NormLimits(REJECT_FACTOR * middle, REPEAT_FACTOR * middle)


def judge_norms(
    norms: Mapping[Name, float], learned: NormLimits | None, repeating: set[Name]
) -> dict[Name, str]:
    """Which of the updates of an edge round are rejected, and why.

    `repeating` are those whose last update was beyond the lower limit; they are brought up to date.
    """
    limits = peer_limits(np.array(list(norms.values()))) if learned is None else learned
    source = "the updates beside it" if learned is None else "the rounds before"
    refused: dict[Name, str] = {}
    for name, norm in norms.items():
        again = name in repeating
        limit = limits.repeat if again else limits.reject
        if not norm <= limit:
            refused[name] = (
                f"the norm of its update is {norm:.4g}: must be at most {limit:.4g} by {source}"
                f"{', as the one before was too large' if again else ''}"
            )
        (repeating.discard if norm <= limits.repeat else repeating.add)(name)
    return refused
