"""FedCor's model: how the losses of clients change together, as a Gaussian process.

Its covariance is X X' + s^2 I, with a point of a few dimensions for each client in the rows of X: a
linear kernel, as published. Its mean is the weighted mean of the changes, as in the authors' code with
`--update_mean`. With so few dimensions nothing of the size clients x clients is ever made.
"""

import numpy as np

from stagewise.world.scenario import FloatArray, IntArray

NOISE = 0.01
"""s, as in the authors' code: it keeps the covariance regular."""

_RATE, _MEAN, _SQUARE, _TINY = 0.01, 0.9, 0.999, 1e-8  # Adam's, as in the authors' code


def fitted(points: FloatArray, changes: FloatArray, weights: FloatArray, steps: int) -> FloatArray:
    """`points` after so many steps towards the largest likelihood of `changes`.

    `changes` has a row for each sample and a column for each client, NaN where nobody knows;
    `weights` is what each sample counts for, in the mean as in the likelihood.
    """
    mean, square = np.zeros((2, *points.shape))
    deviations = changes - _mean_changes(changes, weights)
    samples = [(np.flatnonzero(~np.isnan(row)), row) for row in deviations]
    for step in range(1, steps + 1):
        slope = np.zeros_like(points)
        for weight, (known, row) in zip(weights, samples, strict=True):
            if len(known):
                slope[known] += weight * _slope(points[known], row[known])
        mean = _MEAN * mean + (1 - _MEAN) * slope
        square = _SQUARE * square + (1 - _SQUARE) * slope**2
        root = np.sqrt(square / (1 - _SQUARE**step)) + _TINY
        points = points - _RATE * mean / (1 - _MEAN**step) / root
    return points


def _mean_changes(changes: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted mean of each client's changes; NaN of a single change, which deviates by nothing."""
    known = ~np.isnan(changes)
    weight = weights @ known
    several = (known.sum(axis=0) > 1) & (weight > 0)
    sums = weights @ np.where(known, changes, 0.0)
    return np.where(several, sums / np.where(several, weight, 1.0), np.nan)


def _slope(points: FloatArray, change: FloatArray) -> FloatArray:
    """The derivative of -log N(change; 0, X X' + s^2 I) by X."""
    # The inverse of the covariance by that of a few dimensions (Woodbury).
    inner = np.linalg.inv(NOISE**2 * np.eye(points.shape[1]) + points.T @ points)
    solved = (change - points @ (inner @ (points.T @ change))) / NOISE**2
    return np.asarray(points @ inner - np.outer(solved, solved @ points))


def greatest_decrease(
    points: FloatArray, shares: FloatArray, annealing: FloatArray, among: IntArray, count: int
) -> IntArray:
    """`count` of `among`, one after the other, by how much they lower the losses of all.

    Client k is expected to lower the loss, weighted by `shares`, in proportion to annealing_k times
    sum_i share_i Sigma_ik / sqrt(Sigma_kk); Sigma is then the covariance given its change.
    """
    spread = (points**2).sum(axis=1) + NOISE**2  # the diagonal of Sigma
    pull = points @ (points.T @ shares) + NOISE**2 * shares  # Sigma times the shares
    left = np.zeros(len(points), dtype=np.bool_)
    left[among] = True
    chosen: list[int] = []
    columns: list[
        FloatArray
    ] = []  # of Sigma as it was when each was chosen, over the root of Sigma_kk
    for _ in range(count):
        # What is known from the others' changes has no spread left, and lowers nothing.
        value = annealing * pull / np.sqrt(np.maximum(spread, NOISE**4))
        best = int(np.argmax(np.where(left, value, -np.inf)))
        chosen.append(best)
        left[best] = False
        column = points @ points[best]
        column[best] += NOISE**2
        for other in columns:
            column = column - other * other[best]
        column = column / np.sqrt(max(column[best], NOISE**4))
        columns.append(column)
        pull = pull - column * (column @ shares)
        spread = spread - column**2
    return np.array(chosen, dtype=np.int64)
