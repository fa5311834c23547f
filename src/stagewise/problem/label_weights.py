"""What clients count for in Eq. 2 so that the labels behind the models are as the target has them."""

import numpy as np

from stagewise.compiled import compiled
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import FloatArray, IntArray, Scenario

WHOLE = 3.0
"""What the divergence of all edges together counts for, beside that of each."""
LOYALTY = 0.03
"""What the divergence of the shares from those by data counts for."""
LARGEST = 10.0
"""What a weight is at the most, and its inverse at the least: labels are what clients declare."""
_STEPS = 100  # 30 suffice in the mean
_SETTLED = 1e-2  # of a weight: training does not tell less apart


def label_weights(
    scenario: Scenario,
    edge_of: IntArray,
    *,
    edge_weights: FloatArray | None = None,
    whole: float = WHOLE,
    loyalty: float = LOYALTY,
    largest: float = LARGEST,
) -> FloatArray:
    """The clients' weights that bring the labels behind the models closest to the target.

    Let client i count for the share s_i in its edge's mean, and edge j for the share a_j in the cloud's.
    The shares minimise

        Σ_j a_j KL(P_j || Q) + whole · KL(P || Q) + loyalty · Σ_j a_j KL(s || by data in j)

    with P_j = Σ_i s_i P(client i) and P = Σ_j a_j P_j. The sum is convex, and relative to the entropy of
    the shares `1 + whole + loyalty`-smooth, which gives mirror descent its steps. The last term keeps a
    client with a rare label from being all that its edge learns from, and `largest` where not even that
    does: where labels and target hardly overlap.

    Parameters
    ----------
    scenario : Scenario
        Whose clients serve.
    edge_of : array of int, shape (clients,)
        The edge of each client, -1 for none.
    edge_weights : array of float, optional
        What the edges count for beside their data.
    whole, loyalty : float
        The factors above; `loyalty` is above 0.
    largest : float
        The most that a weight is, and the inverse of the least.

    Returns
    -------
    array of float, shape (clients,)
        What the data of each client is multiplied by, 1 for who does not serve. In the mean over an
        edge's data it is 1, unless one of them is beyond `largest`.
    """
    clients = scenario.clients
    weights = np.ones(len(clients))
    members = np.flatnonzero(edge_of != UNASSIGNED)
    present, edge = np.unique(edge_of[members], return_inverse=True)
    data = clients.data[members].astype(np.float64)
    of_edge = np.bincount(edge, data)
    counted = np.ones(len(present)) if edge_weights is None else edge_weights[present]
    if not counted.any():
        return weights
    part = of_edge * (counted / counted.max())  # relative to it no product is too large
    share = data / of_edge[edge]
    own = clients.label_counts[members] / data[:, None]
    gain = np.zeros(len(members))
    _balance(
        own,
        edge,
        share,
        part / part.sum(),
        np.log(scenario.target),
        whole,
        loyalty,
        gain,
        np.zeros(len(members)),
        np.empty((len(present) + 1, scenario.labels)),
        np.empty(len(members)),
        np.empty(len(present)),
    )
    weights[members] = np.clip(np.exp(gain), 1 / largest, largest)
    return weights


@compiled
def _balance(
    own: FloatArray,
    edge: IntArray,
    share: FloatArray,
    part: FloatArray,
    log_target: FloatArray,
    whole: float,
    loyalty: float,
    gain: FloatArray,
    ahead: FloatArray,
    above: FloatArray,
    step: FloatArray,
    total: FloatArray,
) -> None:
    """Fill `gain` with the logarithms of what the shares are multiplied by; it and `ahead` begin at 0.

    Mirror descent with Nesterov's momentum: slopes are taken at `ahead`, and momentum begins again where
    a step turns against it (O'Donoghue and Candès, 2015). The rest is room to work in: `above` by edge
    and label, its last row for all edges together, `step` by client and `total` by edge.
    """
    edges, labels = len(part), len(log_target)
    rate = 1.0 / (1.0 + whole + loyalty)
    momentum = 1.0
    for _ in range(_STEPS):
        above[:] = 0.0
        for i in range(len(edge)):
            now = share[i] * np.exp(ahead[i])
            for label in range(labels):
                above[edge[i], label] += now * own[i, label]
        for j in range(edges):
            for label in range(labels):
                above[edges, label] += part[j] * above[j, label]
        for j in range(edges + 1):
            for label in range(labels):
                # Nobody here holds a label whose share is 0: its value goes into no slope.
                held = above[j, label] > 0.0
                above[j, label] = np.log(above[j, label]) - log_target[label] if held else 0.0
        for i in range(len(edge)):
            slope = loyalty * ahead[i]
            for label in range(labels):
                slope += own[i, label] * (above[edge[i], label] + whole * above[edges, label])
            step[i] = ahead[i] - rate * slope
        _normalise(share, edge, step, total)
        largest = turned = 0.0
        for i in range(len(edge)):
            change = step[i] - ahead[i]
            largest = max(largest, abs(change))
            turned -= part[edge[i]] * share[i] * np.exp(step[i]) * change * (step[i] - gain[i])
        if turned > 0.0:
            momentum = 1.0
        before, momentum = momentum, (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
        for i in range(len(edge)):
            ahead[i] = step[i] + (before - 1.0) / momentum * (step[i] - gain[i])
            gain[i] = step[i]
        _normalise(share, edge, ahead, total)
        if largest < rate * loyalty * _SETTLED:
            break


@compiled
def _normalise(share: FloatArray, edge: IntArray, gain: FloatArray, total: FloatArray) -> None:
    """Let the shares of every edge add up to 1."""
    total[:] = 0.0
    for i in range(len(edge)):
        total[edge[i]] += share[i] * np.exp(gain[i])
    for i in range(len(edge)):
        gain[i] -= np.log(total[edge[i]])
