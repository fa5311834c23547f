"""How several models become one: the mean, or a rule that a part of them cannot lead astray."""

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from stagewise.world.scenario import BoolArray, FloatArray

Aggregator = Literal["mean", "plain-mean", "trimmed-mean", "median", "multi-krum"]
"""`plain-mean` trusts everybody: the mean of whatever arrives and has a finite norm."""
AGGREGATORS: tuple[Aggregator, ...] = get_args(Aggregator)

WRONG_SHARE = 0.3
"""The share of models that `trimmed-mean` and `multi-krum` expect to be wrong, rounded down."""
_AT_ONCE = 2**16

Models = npt.NDArray[Any]
"""Models as flat vectors of floating-point numbers, shape (models, numbers)."""


def combine(
    models: Models, shares: FloatArray, aggregator: Aggregator
) -> tuple[npt.NDArray[Any], BoolArray]:
    """One model from several, and which of them are in it.

    `shares` are their weights in a mean; only proportions matter. `median` has no weights. With too
    few models to leave any out, `trimmed-mean` and `multi-krum` are the mean.
    """
    everyone = np.ones(len(models), np.bool_)
    if aggregator == "median":
        return np.median(models, axis=0).astype(models.dtype), everyone
    wrong = int(WRONG_SHARE * len(models))
    if aggregator == "trimmed-mean" and wrong:
        return _trimmed_mean(models, shares, wrong), everyone
    if aggregator == "multi-krum":
        everyone = multi_krum(models, wrong)
    return _mean(models[everyone], shares[everyone]), everyone


def is_mean(aggregator: Aggregator) -> bool:
    """Whether all that is accepted is in the model, in proportion to its data."""
    return aggregator in ("mean", "plain-mean")


def judges(aggregator: Aggregator) -> bool:
    """Whether updates are judged before they are combined."""
    return aggregator != "plain-mean"


def left_out(aggregator: Aggregator) -> str:
    """Why a model that `combine` did not keep does not count."""
    return f"left out by {aggregator}: others are nearer to each other"


def multi_krum(models: Models, wrong: int) -> BoolArray:
    """The models with the nearest neighbours, all but `wrong` (Blanchard et al., 2017).

    A model's score is the sum of the squared distances to its n - wrong - 2 nearest.
    """
    count = len(models)
    kept = np.ones(count, np.bool_)
    nearest = count - wrong - 2
    if wrong == 0 or nearest < 1:
        return kept
    numbers = models.astype(np.float64) - models[0]  # what they share would cost digits
    squares = np.einsum("ij,ij->i", numbers, numbers)
    distances = np.maximum(squares[:, None] + squares - 2 * numbers @ numbers.T, 0.0)
    np.fill_diagonal(distances, np.inf)
    scores = np.sort(distances, axis=1)[:, :nearest].sum(axis=1)
    kept[np.argsort(scores, kind="stable")[count - wrong :]] = False
    return kept


def _mean(models: Models, shares: FloatArray) -> npt.NDArray[Any]:
    # Models without a share may be all that is kept.
    shares = shares if shares.any() else np.ones_like(shares)
    return np.asarray((shares / shares.sum()) @ models, models.dtype)


def _trimmed_mean(models: Models, shares: FloatArray, wrong: int) -> npt.NDArray[Any]:
    """In each number the mean without the `wrong` largest and smallest (Yin et al., 2018)."""
    combined = np.empty(models.shape[1], models.dtype)
    for start in range(0, models.shape[1], _AT_ONCE):
        part = models[:, start : start + _AT_ONCE].astype(np.float64)
        inner = np.argsort(part, axis=0, kind="stable")[wrong : len(models) - wrong]
        weights = shares[inner]
        total = weights.sum(axis=0)
        # Models without a share may be all that is left of a number.
        weights = np.where(total > 0, weights, 1.0)
        combined[start : start + _AT_ONCE] = np.average(
            np.take_along_axis(part, inner, axis=0), axis=0, weights=weights
        )
    return combined
