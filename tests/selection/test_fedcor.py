"""FedCor against its rule over dense matrices, and its fit against another optimiser's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import Recorded, online, recorded, selections, table

from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.selection import fedcor
from stagewise.selection.fedcor import FedCor
from stagewise.selection.loss_changes import NOISE, _slope, fitted, greatest_decrease

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads that wait for one another take a hundred times as long over matrices this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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


def normal(at):
    """The distribution whose covariance is that of the points `at`."""
    one = torch.ones(len(at), dtype=torch.float64)
    sigma = at @ at.T + NOISE**2 * torch.diag(one)
    return torch.distributions.MultivariateNormal(0 * one, sigma)


@given(seed=st.integers(0, 10_000))
def test_the_slope_is_that_of_the_likelihood(seed):
    rng = np.random.default_rng(seed)
    points, change = rng.normal(size=(4, 2)), rng.normal(size=4)

    at = torch.tensor(points, requires_grad=True)
    (-normal(at).log_prob(torch.tensor(change))).backward()
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


def adam_fit(points, samples: list[dict[int, float]], weights: list[float], steps: int):
    """The likelihood of changes about their means, climbed by PyTorch with the whole covariance."""
    of_client: dict[int, list[tuple[float, float]]] = {}
    for weight, sample in zip(weights, samples, strict=True):
        for client, change in sample.items():
            of_client.setdefault(client, []).append((weight, change))
    mean = {
        client: sum(w * change for w, change in seen) / sum(w for w, _ in seen)
        for client, seen in of_client.items()
        if len(seen) > 1
    }
    at = torch.tensor(points, requires_grad=True)
    optimiser = torch.optim.Adam([at], lr=0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = torch.zeros((), dtype=torch.float64)
        for weight, sample in zip(weights, samples, strict=True):
            known = sorted(set(sample) & set(mean))
            if known:
                deviation = torch.tensor([sample[client] - mean[client] for client in known])
                loss = loss - weight * normal(at[known]).log_prob(deviation.double())
        if loss.requires_grad:
            loss.backward()
            optimiser.step()
    return at.detach().numpy()


@pytest.mark.parametrize("seed", range(4))
def test_the_fit_is_that_of_another_optimiser(seed):
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(8, 3)) / np.sqrt(3), 0.9 ** np.arange(6.0)
    changes = rng.normal(-0.3, 0.2, (6, 8))
    changes[rng.random((6, 8)) < 0.3] = np.nan
    changes[:-1, 0] = np.nan  # seen once at most
    samples = [{c: row[c] for c in range(8) if not np.isnan(row[c])} for row in changes]
    found = fitted(points, changes, weights, 400)
    assert found == pytest.approx(adam_fit(points, samples, weights.tolist(), 400), abs=1e-6)
    assert (found[0] == points[0]).all()


FIRST_STEPS, LATER_STEPS = 60, 20
"""So few that the last bit makes no difference: after a thousand steps it does."""


@pytest.fixture
def short_fits(monkeypatch):
    monkeypatch.setattr(fedcor, "_FIRST_STEPS", FIRST_STEPS)
    monkeypatch.setattr(fedcor, "_LATER_STEPS", LATER_STEPS)


def rule(record: Recorded, losses=None) -> list[list[int]]:
    """Whom to choose, over dictionaries: where `losses` of all can be asked for, or else cannot.

    k = 6, a warm-up of 4 rounds, a sample in every third, kept for 6, worth 0.9 of itself a round later.
    """
    last: dict[int, float] = {}
    samples: list[tuple[int, dict[int, float]]] = []
    size = len(record[0][0].online)
    rng = generator(3, "FedCor points")
    points, annealing = rng.standard_normal((size, 15)) / np.sqrt(15), [1.0] * size
    chosen_in, fits, used, was_random = [], 0, 0, False
    for number, (round_, outcome) in enumerate(record):
        able = online(round_)
        is_random = number < 4 or (number - 4 + 1) % 3 == 0
        if losses is not None:
            told = {client: losses[number, client] for client in able}
            if was_random:
                samples.append((number - 1, {c: told[c] - last[c] for c in told if c in last}))
            last = told
        if is_random or not samples:
            draw = generator(3, "FedCor", round_.index)
            chosen = draw.choice(np.array(able, dtype=int), min(6, len(able)), replace=False)
        else:
            if used < len(samples):
                newest = samples[-1][0]
                kept = [(n, sample) for n, sample in samples if n + 6 >= newest]
                weights = [0.9 ** (newest - n) for n, _ in kept]
                steps = LATER_STEPS if fits else FIRST_STEPS
                points = adam_fit(points, [sample for _, sample in kept], weights, steps)
                fits, used = fits + 1, len(samples)
            data = round_.scenario.clients.data
            chosen = dense_greedy(points, data / data.sum(), annealing, able, min(6, len(able)))
        chosen_in.append(sorted(int(client) for client in chosen))
        if losses is None:
            rows = table(outcome)
            now = {int(r["client"]): r["loss_before"] for r in rows if r["loss_before"] > 0}
            change = {c: loss - last[c] for c, loss in now.items() if c in last}
            if is_random and change:
                samples.append((number, change))
            last |= now
        for row in table(outcome):
            annealing[int(row["client"])] *= 0.8
        if is_random:
            annealing = [1.0] * size
        was_random = is_random
    assert fits > 1
    return chosen_in


def like_the_rule() -> FedCor:
    return FedCor(k=6, warmup=4, interval=3, annealing=0.8, history=6, discount=0.9, seed=3)


@pytest.mark.parametrize("seed", range(3))
def test_it_selects_as_published_where_losses_cannot_be_asked_for(seed, short_fits):
    record = recorded(seed, rounds=12)
    assert selections(like_the_rule(), record) == rule(record)


@pytest.mark.parametrize("seed", range(3))
def test_it_selects_as_published_where_all_losses_are_told(seed, short_fits):
    record = recorded(seed, rounds=12)
    # Two groups of clients whose losses fall together, by more and by less.
    falls = np.random.default_rng(seed).gamma(2.0, 0.1, (12, 2))
    losses = 5 - np.cumsum(falls, axis=0)[:, np.arange(30) % 2] * np.linspace(0.5, 1.5, 30)
    selector, found = like_the_rule(), []
    for number, (round_, outcome) in enumerate(record):
        asked = selector.probe(round_)
        if asked is not None:
            selector.told(asked, losses[number, asked])
        found.append(sorted(selector.select(round_).tolist()))
        selector.observe(outcome)
    assert found == rule(record, losses)


def test_defaults_are_those_that_the_authors_give_for_fashion_mnist(monkeypatch):
    """A warm-up of 15 rounds and a long fit; then samples every 10 rounds, and short fits."""
    fits = []

    def noted(points, changes, weights, steps):
        fits.append((len(changes), steps))
        return points

    monkeypatch.setattr(fedcor, "fitted", noted)
    selector = FedCor(k=5)
    for round_, outcome in recorded(0, rounds=36):
        clients = selector.probe(round_)
        if clients is not None:
            selector.told(clients, np.linspace(1, 2, len(clients)))
        selector.select(round_)
        selector.observe(outcome)
    assert fits == [(15, 1000), (16, 100), (17, 100)]
    assert (selector.history, selector.annealing, selector.discount) == (100, 0.95, 0.95)


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
