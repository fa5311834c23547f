"""FedCor against its rule over dense matrices, and its fit against another optimiser's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import Recorded, online, recorded, selections, table

from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.selection.fedcor import FedCor
from stagewise.selection.loss_changes import NOISE, _slope, fitted, greatest_decrease

torch = pytest.importorskip("torch")


def dense_greedy(points, shares, annealing, among, count) -> list[int]:
    """The rule with the whole covariance, which then is that given the chosen client's change."""
    sigma = points @ points.T + NOISE**2 * np.eye(len(points))
    left, chosen = list(among), []
    for _ in range(count):
        value = [
            annealing[k]
            * sum(shares[i] * sigma[i, k] for i in range(len(points)))
            / np.sqrt(max(sigma[k, k], NOISE**4))
            for k in left
        ]
        best = left[int(np.argmax(value))]
        left.remove(best)
        chosen.append(best)
        sigma = sigma - np.outer(sigma[:, best], sigma[best]) / sigma[best, best]
    return chosen


@given(seed=st.integers(0, 10_000), count=st.integers(1, 6))
def test_clients_are_chosen_as_with_the_whole_covariance(seed, count):
    rng = np.random.default_rng(seed)
    points, shares = rng.normal(size=(12, 5)), rng.dirichlet(np.ones(12))
    among = np.flatnonzero(rng.random(12) < 0.8)
    annealing = rng.uniform(0.5, 1.0, 12)
    count = min(count, len(among))
    found = greatest_decrease(points, shares, annealing, among, count)
    assert found.tolist() == dense_greedy(points, shares, annealing, among.tolist(), count)


@given(seed=st.integers(0, 10_000))
def test_the_slope_is_that_of_the_likelihood(seed):
    rng = np.random.default_rng(seed)
    points, change = rng.normal(size=(4, 2)), rng.normal(size=4)

    at = torch.tensor(points, requires_grad=True)
    sigma = at @ at.T + NOISE**2 * torch.eye(4, dtype=torch.float64)
    normal = torch.distributions.MultivariateNormal(torch.zeros(4, dtype=torch.float64), sigma)
    (-normal.log_prob(torch.tensor(change))).backward()
    expected = at.grad.numpy()
    assert np.abs(_slope(points, change) - expected).max() <= 1e-6 * np.abs(expected).max()


def test_the_fit_finds_who_changes_together():
    """Two groups of clients whose losses fall together, seen in twenty samples, not all of everybody."""
    rng = np.random.default_rng(0)
    changes = rng.normal(size=(20, 2))[:, [0, 0, 0, 1, 1, 1]] + 0.05 * rng.normal(size=(20, 6))
    changes[rng.random((20, 6)) < 0.1] = np.nan
    points = fitted(rng.normal(size=(6, 3)) / 2, changes, np.ones(20), 4000)
    length = np.linalg.norm(points, axis=1)
    alike = points @ points.T / np.outer(length, length)
    assert alike[:3, :3].min() > 0.8 and alike[3:, 3:].min() > 0.8
    assert np.abs(alike[:3, 3:]).max() < 0.6


def rule(record: Recorded, k: int, warmup: int, interval: int) -> list[list[int]]:
    """Whom to choose where losses cannot be asked for, over dictionaries."""
    last: dict[int, float] = {}
    samples: list[tuple[int, dict[int, float]]] = []
    size = len(record[0][0].online)
    rng = generator(3, "FedCor points")
    points, annealing = rng.standard_normal((size, 15)) / np.sqrt(15), [1.0] * size
    chosen_in, fits, used = [], 0, 0
    for number, (round_, outcome) in enumerate(record):
        able = online(round_)
        count = min(k, len(able))
        random_round = number < warmup or (number - warmup + 1) % interval == 0
        if random_round or not samples:
            draw = generator(3, "FedCor", round_.index)
            chosen = draw.choice(np.array(able, dtype=int), count, replace=False).tolist()
        else:
            if used < len(samples):
                newest = samples[-1][0]
                kept = [(n, row) for n, row in samples if n + 10 >= newest]
                rows = np.array([[row.get(c, np.nan) for c in range(size)] for _, row in kept])
                # In the same way to the last bit: a thousand steps make much of it.
                weights = 0.8 ** np.array([newest - n for n, _ in kept], dtype=float)
                points = fitted(points, rows, weights, 100 if fits else 1000)
                fits, used = fits + 1, len(samples)
            data = round_.scenario.clients.data
            chosen = dense_greedy(points, data / data.sum(), annealing, able, count)
        chosen_in.append(sorted(chosen))
        now = {int(r["client"]): r["loss_before"] for r in table(outcome) if r["loss_before"] > 0}
        change = {c: loss - last[c] for c, loss in now.items() if c in last}
        if random_round and change:
            samples.append((number, change))
        last |= now
        for row in table(outcome):
            annealing[int(row["client"])] *= 0.9
        if random_round:
            annealing = [1.0] * size
    return chosen_in


@pytest.mark.parametrize("seed", range(3))
def test_it_selects_as_published(seed):
    record = recorded(seed, rounds=12)
    selector = FedCor(k=6, warmup=4, interval=3, seed=3)
    assert selections(selector, record) == rule(record, 6, 4, 3)


def test_it_asks_for_losses_around_the_rounds_that_it_samples():
    selector = FedCor(k=5, warmup=2, interval=3)
    asked = []
    for round_, outcome in recorded(0, rounds=9):
        clients = selector.probe(round_)
        asked.append(clients is not None)
        if clients is not None:
            assert clients.tolist() == online(round_)
            selector.told(clients, np.ones(len(clients)))
        selector.select(round_)
        selector.observe(outcome)
    #        warm-up          after         sampled, after
    assert asked == [True, True, True, False, True, True, False, True, True]


def test_losses_that_were_told_count_before_those_of_batches():
    selector = FedCor(k=5, warmup=3)
    record = recorded(0, rounds=3)
    for number, (round_, outcome) in enumerate(record):
        clients = selector.probe(round_)
        selector.told(clients, np.full(len(clients), 3.0 - number))
        selector.select(round_)
        selector.observe(outcome)
    changes = selector.state()["changes"]
    # Only of clients that were online in both of two rounds; batches do not count.
    there = [set(online(round_)) for round_, _ in record]
    assert [set(np.flatnonzero(row == -1.0)) for row in changes] == [
        there[0] & there[1],
        there[1] & there[2],
    ]
    assert np.isnan(changes[changes != -1.0]).all()


@pytest.mark.parametrize("options", [{"warmup": 0}, {"annealing": 1.1}, {"dimension": 0}])
def test_options_that_cannot_be(options):
    (name,) = options
    with pytest.raises(StagewiseError, match=f"{name} = "):
        FedCor(**options)
