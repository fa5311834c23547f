"""Rounds and their file: both kinds of line, what a round may change, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from stagewise.errors import StagewiseError
from stagewise.world.costs import link_costs
from stagewise.world.rounds import Round, round_of
from stagewise.world.rounds_file import load_rounds, save_rounds

SCENARIO = random_scenario(2, clients=6, edges=3, isolated=0)


def load(folder, *lines):
    path = folder / "rounds.jsonl"
    path.write_bytes(
        b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    )
    return load_rounds(path, SCENARIO)


def covering(client: int) -> list[str]:
    row = slice(SCENARIO.links.start[client], SCENARIO.links.start[client + 1])
    return [SCENARIO.edges.ids[edge] for edge in SCENARIO.links.edge[row]]


def test_a_line_is_a_list_or_an_object(tmp_path):
    first, second, third = load(tmp_path, ["c5", "c0"], b"", {"online": ["c1"]}, [])
    assert first.online.tolist() == [True, False, False, False, False, True]
    assert first.online_ids == ["c0", "c5"]
    assert second.online_ids == ["c1"]
    assert third.online_ids == []
    assert first.cpu_hz is first.gain is second.cpu_hz is second.gain is None


def test_what_a_round_changes_and_nothing_else(tmp_path):
    edge = covering(2)[-1]
    (round_,) = load(
        tmp_path, {"online": ["c2"], "cpu_hz": {"c2": 7e9}, "links": {"c2": {edge: 5e-8}}}
    )
    cpu, gain = SCENARIO.clients.cpu_hz.copy(), SCENARIO.links.gain.copy()
    cpu[2] = 7e9
    gain[SCENARIO.links.start[3] - 1] = 5e-8
    np.testing.assert_array_equal(round_.cpu_hz, cpu)
    np.testing.assert_array_equal(round_.gain, gain)
    expected = link_costs(SCENARIO, cpu, gain)
    np.testing.assert_array_equal(round_.costs.delay_s, expected.delay_s)
    np.testing.assert_array_equal(round_.costs.energy_j, expected.energy_j)


@given(
    st.lists(
        st.tuples(st.lists(st.booleans(), min_size=6, max_size=6), *[st.booleans()] * 4),
        max_size=5,
    ),
    st.integers(0, 2**31),
)
def test_nothing_is_lost_in_a_file(tmp_path_factory, drawn, seed):
    rng = np.random.default_rng(seed)
    rounds = []
    for index, (online, cpu, gain, measured, down) in enumerate(drawn):
        some_cpu = np.where(rng.random(6) < 0.5, SCENARIO.clients.cpu_hz, rng.uniform(1e9, 2e9, 6))
        links = len(SCENARIO.links)
        some_gain = np.where(rng.random(links) < 0.5, SCENARIO.links.gain, rng.uniform(1, 2, links))
        some_links = rng.random(links) < 0.5
        rounds.append(
            Round(
                SCENARIO,
                np.array(online),
                index,
                cpu_hz=some_cpu if cpu else None,
                gain=some_gain if gain else None,
                delay_s=np.where(some_links, rng.uniform(1, 2, links), np.nan)
                if measured
                else None,
                energy_j=np.where(some_links, rng.uniform(1, 2, links), np.nan)
                if measured
                else None,
                up=rng.random(links) < 0.7 if down else None,
            )
        )
    path = tmp_path_factory.mktemp("rounds") / "rounds.jsonl"
    save_rounds(rounds, path)
    again = load_rounds(path, SCENARIO)
    assert len(again) == len(rounds)
    for old, new in zip(rounds, again, strict=True):
        assert new.index == old.index
        np.testing.assert_array_equal(old.online, new.online)
        np.testing.assert_array_equal(old.usable, new.usable)
        np.testing.assert_array_equal(old.edges_up, new.edges_up)
        np.testing.assert_array_equal(old.costs.delay_s, new.costs.delay_s)
        np.testing.assert_array_equal(old.costs.energy_j, new.costs.energy_j)


def test_plain_rounds_are_written_as_lists(tmp_path):
    save_rounds([Round(SCENARIO, np.ones(6, dtype=bool))], tmp_path / "r.jsonl")
    assert json.loads((tmp_path / "r.jsonl").read_text()) == [f"c{i}" for i in range(6)]


def test_a_round_from_a_mask_from_ids_or_from_a_round():
    mask = np.array([True, False, True, False, False, False])
    by_mask, by_ids = round_of(SCENARIO, mask), round_of(SCENARIO, ["c2", "c0"])
    np.testing.assert_array_equal(by_mask.online, by_ids.online)
    assert round_of(SCENARIO, by_mask) is by_mask
    with pytest.raises(StagewiseError, match=r"online has the shape \(2,\): must have one"):
        round_of(SCENARIO, np.array([True, False]))
    with pytest.raises(StagewiseError, match="online: 'c9' must be the id of a client"):
        round_of(SCENARIO, ["c9"])


ONLINE = {"online": ["c0"]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["c0", "c0"], "round 1: online: 'c0' must not occur twice"),
        (["x"], "round 1: online: 'x' must be the id of a client"),
        ({"cpu_hz": {}}, "line 2: .*missing required field `online`"),
        ({**ONLINE, "power": 1}, "line 2: .*unknown field `power`"),
        ({**ONLINE, "cpu_hz": {"x": 1e9}}, "cpu_hz: 'x' must be the id of a client"),
        ({**ONLINE, "cpu_hz": {"c0": 0}}, r"cpu_hz\['c0'\] = 0.0: must be a finite number above 0"),
        ({**ONLINE, "cpu_hz": {"c0": "fast"}}, "line 2: .*expected `float`"),
        ({**ONLINE, "links": {"x": {"es0": 1e-9}}}, "links: 'x' must be the id of a client"),
        ({**ONLINE, "links": {"c0": {"es9": 1e-9}}}, r"links\['c0'\]: 'es9' must be an edge that"),
        (
            {**ONLINE, "links": {"c0": {covering(0)[0]: -1}}},
            r"= -1.0: must be a finite number above",
        ),
        (
            {**ONLINE, "cpu_hz": {"c0": 1e300}},
            "cpu_hz: the delay and energy of client 'c0' must be",
        ),
        (b"[c0]", "line 2: not valid JSON"),
        (b"\xff", "line 2: not valid JSON"),
        (b'"c0"', "line 2: .*expected `object | array`"),
        (b'{"online": ["c0"], "cpu_hz": {"c0": 1e999}}', "line 2: .*out of range"),
        (b"[" * 100_000, "line 2: "),
    ],
)
def test_malformed_lines_are_refused(tmp_path, line, message):
    with pytest.raises(StagewiseError, match=f"(?i){message}") as error:
        load(tmp_path, ["c1"], line)
    assert str(error.value).startswith(f"{tmp_path / 'rounds.jsonl'}: ")
    assert "\n" not in str(error.value)
