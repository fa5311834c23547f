"""How far an edge's labels are from the reference distribution (Eqs. 7, 8)."""

import numpy as np

from stagewise.world.scenario import BoolArray, FloatArray, IntArray

KLD_TOLERANCE = 1e-9
"""A divergence this close to its limit counts as within it, in every evaluation alike."""


def kl_divergence(label_sums: IntArray, target: FloatArray) -> FloatArray:
    """KLD(P || Q) of each row of label counts, in nats; infinite for a row without data.

    `label_sums` has shape (rows, labels), `target` is Q with shape (labels,).
    """
    total = label_sums.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = label_sums / total
        terms = np.where(label_sums > 0, share * np.log(share / target), 0.0)
    return np.where(total[:, 0] > 0, terms.sum(axis=1), np.inf)


def exceeds_kld_max(kld: FloatArray, kld_max: float) -> BoolArray:
    """Where a divergence breaks (9a)."""
    return np.asarray(kld > kld_max + KLD_TOLERANCE)
