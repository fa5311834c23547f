"""How large an update may be: limits learned from the norms of the rounds before.

Norms are compared by their logarithms, since they spread over factors: the middle is the median, the
spread the median distance from it, scaled as a standard deviation. A part of the norms may be wrong.
"""

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec
import numpy as np

from stagewise.world.scenario import FloatArray

Name = TypeVar("Name", bound=Hashable)

TOO_LARGE = float(np.finfo(np.float64).max)
"""Stands for a norm that cannot be computed; infinity has no place in files and messages."""

LEAST_NORMS = 8
"""With fewer norms of earlier rounds an update is compared with those beside it."""

REJECT_SPREADS, REJECT_FACTOR = 6.0, 100.0
"""An update is rejected beyond so many spreads above the median, but not below that many times it."""
DOUBTFUL_SPREADS, DOUBTFUL_FACTOR = 2.0, 3.0
"""The same for an update that there are other reasons to doubt."""

_AS_DEVIATION = 1.4826


class NormLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest norms that updates may have."""

    reject: float
    """What lies beyond it is rejected."""
    doubtful: float
    """What lies beyond it is rejected where there are other reasons to doubt it."""


def learned_limits(norms: FloatArray) -> NormLimits | None:
    """The limits that follow from the norms of earlier rounds; None from too few."""
    known = norms[(norms > 0) & (norms < TOO_LARGE)]
    if len(known) < LEAST_NORMS:
        return None
    logs = np.log(known)
    middle = np.median(logs)
    spread = _AS_DEVIATION * np.median(np.abs(logs - middle))
    above = (
        max(REJECT_SPREADS * spread, np.log(REJECT_FACTOR)),
        max(DOUBTFUL_SPREADS * spread, np.log(DOUBTFUL_FACTOR)),
    )
    return NormLimits(*(float(np.exp(middle + more)) for more in above))


def peer_limits(norms: FloatArray) -> NormLimits:
    """Limits by the norms beside it, where nothing is known from before.

    The median of an even number is the lower of the two in the middle: of two updates the smaller is
    believed. One that has no other beside it may be of any size that can be computed.
    """
    known = np.sort(norms[(norms > 0) & (norms < TOO_LARGE)])
    if len(norms) < 2 or len(known) == 0:
        largest = float(np.nextafter(TOO_LARGE, 0))
        return NormLimits(largest, largest)
    middle = float(known[(len(known) - 1) // 2])
    return NormLimits(REJECT_FACTOR * middle, DOUBTFUL_FACTOR * middle)


def judge_norms(
    norms: Mapping[Name, float],
    learned: NormLimits | None,
    doubts: Mapping[Name, str] = MappingProxyType({}),
) -> dict[Name, str]:
    """Which of the updates of an edge round are rejected, and why.

    `doubts` are other reasons to doubt updates.
    """
    limits = peer_limits(np.array(list(norms.values()))) if learned is None else learned
    source = "the updates beside it" if learned is None else "the rounds before"
    refused: dict[Name, str] = {}
    for name, norm in norms.items():
        limit, more = limits.reject, ""
        if name in doubts:
            limit, more = limits.doubtful, f", as {doubts[name]}"
        if not norm <= limit:
            refused[name] = (
                f"the norm of its update is {norm:.4g}: must be at most {limit:.4g} by {source}{more}"
            )
    return refused
