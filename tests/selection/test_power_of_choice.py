"""Power-of-Choice against its three steps, said again in plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import Recorded, online, recorded, selections, table

from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.selection.power_of_choice import PowerOfChoice


def power_of_choice(record: Recorded, k: int, d: int, losses=None) -> list[list[int]]:
    """pow-d by the `losses` that candidates tell, shape (rounds, clients); rpow-d where they are NaN."""
    last: dict[int, float] = {}
    chosen_in = []
    for number, (round_, outcome) in enumerate(record):
        able = online(round_)
        rings = generator(2, "Power-of-Choice", round_.index).exponential(size=len(able))
        data = round_.scenario.clients.data
        at = {client: ring / data[client] for client, ring in zip(able, rings, strict=True)}
        drawn = sorted(able, key=at.__getitem__)[: max(d, min(k, len(able)))]
        if losses is not None:
            last |= {c: losses[number, c] for c in drawn if not math.isnan(losses[number, c])}
        ranked = sorted(drawn, key=lambda client: -last.get(client, math.inf))
        chosen_in.append(sorted(ranked[:k]))
        for row in table(outcome):
            loss = (row["loss_before"] + row["loss_after"]) / 2
            if not math.isnan(loss):
                last[int(row["client"])] = loss
    return chosen_in


@given(seed=st.integers(0, 10_000), k=st.integers(1, 12), more=st.integers(0, 15))
def test_it_selects_by_the_last_losses_as_published(seed, k, more):
    record = recorded(seed)
    found = selections(PowerOfChoice(k=k, d=k + more, seed=2), record)
    assert found == power_of_choice(record, k, k + more)


@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 12),
    more=st.integers(0, 15),
    unknown=st.sampled_from([0.0, 0.3]),
)
def test_it_selects_by_the_losses_that_are_told_as_published(seed, k, more, unknown):
    record = recorded(seed)
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, 6, (len(record), 30)) / 2  # equal ones among them
    losses[rng.random(losses.shape) < unknown] = np.nan
    selector, found = PowerOfChoice(k=k, d=k + more, seed=2), []
    for number, (round_, outcome) in enumerate(record):
        asked = selector.probe(round_)
        selector.told(asked, losses[number, asked])
        found.append(sorted(selector.select(round_).tolist()))
        selector.observe(outcome)
    assert found == power_of_choice(record, k, k + more, losses)


def test_by_default_there_are_two_candidates_for_a_place():
    record = recorded(0)
    assert selections(PowerOfChoice(k=5, seed=2), record) == power_of_choice(record, 5, 10)


def test_there_must_be_as_many_candidates_as_places():
    with pytest.raises(StagewiseError, match=r"d = 4: must be at least 5"):
        PowerOfChoice(k=5, d=4)


def test_losses_that_are_told_are_those_that_count():
    ((round_, _),) = recorded(5, rounds=1)
    selector = PowerOfChoice(k=3, d=9, seed=2)
    clients = selector.probe(round_)
    assert len(clients) == 9
    losses = {int(client): float(client % 7) for client in clients}
    selector.told(clients, [*losses.values()] * np.ones(9))
    chosen = selector.select(round_)
    assert sorted(losses[int(c)] for c in chosen) == sorted(losses.values())[-3:]
