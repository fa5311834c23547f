"""What training on its labels can do to the biases of a model's outputs.

The gradient of cross entropy in the bias of an output is the mean probability of its label minus the
label's share of the batch, where the bias is added to the output and nothing comes after it. So a step
of gradient descent raises no bias of a label that the client has no samples of, and all of them together
by at most the learning rate. An update that does either cannot come of the client's declared data:
flipped signs and labels do the first, a scaled update the second.
"""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from stagewise.robust.norms import TOO_LARGE
from stagewise.world.scenario import BoolArray, FloatArray

ROUNDING = 1.05
"""An update may raise the biases by so many times what is possible."""
HIGH_RISE = 0.6
"""Honest updates raise the biases that much only while the model knows little, and all are as large."""
FOREIGN_SHARE = 0.1
"""The share of a rise that may be in labels that the client has no samples of. By its declared data it
is 0; a client that was given a few samples since should not be taken for an attacker."""


class OutputBias(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which array has the biases of the outputs, and what an edge round can do to them."""

    name: str
    most: float
    """How far they can rise in all: the learning rate times the local steps, without momentum."""
    slack: float
    """Weight decay and rounding move each by at most so many times its size."""

    @classmethod
    def of(
        cls,
        name: str,
        *,
        learning_rate: float,
        momentum: float,
        weight_decay: float,
        local_steps: int,
        precision: float,
    ) -> "OutputBias":
        """The rule for clients that train like that, in numbers of a relative `precision`."""
        velocity = np.cumsum(momentum ** np.arange(local_steps))  # of a gradient that stays 1
        most = learning_rate * float(velocity.sum())
        return cls(name, most, weight_decay * most + local_steps * precision)


class BiasRise(NamedTuple):
    """What an update does to the biases of the outputs; NaN where it is not known."""

    rise: float = np.nan
    """By how much they rise in all, as a multiple of what is possible; at most `TOO_LARGE`."""
    foreign: float = np.nan
    """The share of that in labels that the client has no samples of."""


@dataclass(frozen=True, eq=False)
class LabelRule:
    """The rule for a scenario's clients."""

    outputs: OutputBias
    held: BoolArray
    """Which labels each client has samples of, shape (clients, labels)."""


def bias_rise(
    before: FloatArray, after: FloatArray, held: BoolArray, outputs: OutputBias
) -> BiasRise:
    """What the update of a client that holds `held` does to the biases, from `before` to `after`."""
    known = np.asarray(before, np.float64)
    with np.errstate(over="ignore"):
        rises = np.asarray(after, np.float64) - known - outputs.slack * np.abs(known)
        rises = np.clip(rises, 0.0, TOO_LARGE)
        total = float(rises.sum())
        rise = min(total / outputs.most, TOO_LARGE)
    if not total > 0:
        return BiasRise(rise, 0.0)
    shares = rises / rises.max()  # their sum can be computed
    return BiasRise(rise, float(shares[~held].sum() / shares.sum()))


def judge_rise(found: BiasRise) -> str:
    """Why an update is rejected by what it does to the biases; empty if it is not."""
    if found.rise > ROUNDING:
        return (
            f"it raises the biases of the outputs by {found.rise:.3g} times what its steps of "
            f"training can: must be at most {ROUNDING}"
        )
    if found.foreign > FOREIGN_SHARE:
        return (
            f"{found.foreign:.3g} of what it raises the biases of the outputs by is for labels that it "
            f"has no samples of: must be at most {FOREIGN_SHARE}"
        )
    return ""
