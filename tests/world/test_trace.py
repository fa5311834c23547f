"""Traces: what is read, who is online when, and every way a file can be wrong."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from stagewise.errors import StagewiseError
from stagewise.world import trace as trace_module
from stagewise.world.participation import trace as follow
from stagewise.world.trace import Trace, load_trace

NAME = "flame_mobiperf_300dev_6d.json.gz"


def write(folder, devices, *, packed=False):
    content = devices if isinstance(devices, bytes) else json.dumps({"devices": devices}).encode()
    path = folder / "trace.json"
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


def device(*changes):
    return {"states_2": [list(change) for change in changes]}


@pytest.mark.parametrize("packed", [False, True])
def test_states_hold_until_the_next_change(tmp_path, packed):
    devices = {
        "a": device((0, "AVL_TRAIN"), (10, "UN_AVL"), (20.5, "AVL_TRAIN")),
        "b": device((5, "AVL_TRAIN")),
    }
    trace = load_trace(write(tmp_path, devices, packed=packed))
    assert trace.devices == ("a", "b")
    assert trace.end_s == 20.5
    expected = {0: [1, 0], 4.9: [1, 0], 5: [1, 1], 10: [0, 1], 20: [0, 1], 20.5: [1, 1], 99: [1, 1]}
    for time, online in expected.items():
        assert trace.online_at(time).tolist() == [bool(state) for state in online]


def test_of_two_changes_in_one_second_the_later_counts(tmp_path):
    devices = {
        "a": device((0, "UN_AVL"), (5, "UN_AVL"), (5, "AVL_TRAIN")),
        "b": device((0, "AVL_TRAIN"), (5, "AVL_TRAIN"), (5, "UN_AVL")),
    }
    trace = load_trace(write(tmp_path, devices))
    assert trace.online_at(5).tolist() == [True, False]


def test_other_variants_and_their_third_state(tmp_path):
    devices = {
        "a": {
            "training_delay_s": "4.0",
            "states_2": [[0, "AVL_TRAIN"]],
            "states_3_battery50": [[0, "AVL_EVAL"], [7, "AVL_TRAIN"]],
        }
    }
    path = write(tmp_path, devices)
    assert load_trace(path).online_at(3).tolist() == [True]
    battery = load_trace(path, "states_3_battery50")
    assert [battery.online_at(t).tolist() for t in (3, 7)] == [[False], [True]]
    with pytest.raises(
        StagewiseError, match=r"devices\['a'\].states_3_battery75: must have at least"
    ):
        load_trace(path, "states_3_battery75")
    with pytest.raises(StagewiseError, match=r"variant = 'states_4': must be one of states_2"):
        load_trace(path, "states_4")


@given(st.data())
def test_online_at_any_time_against_a_walk_through_the_changes(data):
    rows = data.draw(
        st.lists(
            st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=8).map(
                lambda changes: sorted(changes, key=lambda change: change[0])
            ),
            min_size=1,
            max_size=5,
        )
    )
    trace = Trace(
        devices=tuple(map(str, range(len(rows)))),
        start=np.cumsum([0, *map(len, rows)]),
        time_s=np.array([time for row in rows for time, _ in row], dtype=float),
        online=np.array([online for row in rows for _, online in row]),
    )
    moment = data.draw(st.integers(-1, 13))
    expected = []
    for row in rows:
        state = False
        for time, online in row:
            if time <= moment:
                state = online
        expected.append(state)
    assert trace.online_at(moment).tolist() == expected


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ({}, "devices: there must be at least one"),
        ({"a": {}}, r"devices\['a'\].states_2: must have at least one"),
        ({"a": {"states_2": []}}, r"devices\['a'\].states_2: must have at least one"),
        ({"a": device((0, "ON"))}, r"devices\['a'\]: states_2\[0\]\[1\] = 'ON'"),
        ({"a": device(("x", "UN_AVL"))}, r"devices\['a'\]: states_2\[0\]\[0\] = 'x'"),
        ({"a": device((-1, "UN_AVL"))}, r"states_2\[0\]\[0\] = -1.0: must be a finite number"),
        (
            {"a": device((5, "UN_AVL"), (4, "AVL_TRAIN"))},
            r"states_2\[1\]\[0\] = 4.0: must not be before the last, 5",
        ),
        ({"a": {"states_2": [[1]]}}, r"devices\['a'\]: "),
        ({"a": {"states_2": 3}}, r"devices\['a'\]: states_2"),
        ({"a": 7}, r"devices\['a'\]"),
        ([], "devices"),
        (b"", "not valid JSON"),
        (b"[]", "expected `object`, got `array`"),
        (b"{}", "missing required field `devices`"),
        (b'{"devices": {"a": {"states_2": [[NaN, "UN_AVL"]]}}}', "not valid JSON"),
        (b'{"devices": {"a": {"states_2": [[1e999, "UN_AVL"]]}}}', "devices|not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "nested too deeply|not valid JSON|expected `object`"),
    ],
)
def test_malformed_traces_are_refused(tmp_path, devices, message):
    path = write(tmp_path, devices)
    with pytest.raises(StagewiseError, match=f"(?i){message}") as error:
        load_trace(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_damaged_gzip_is_refused(tmp_path):
    whole = gzip.compress(json.dumps({"devices": {"a": device((0, "UN_AVL"))}}).encode())
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF
    for content in (whole[:-5], whole[:12], bytes(broken), b"\x1f\x8b", b"\x1f\x8bnot gzip at all"):
        path = write(tmp_path, content)
        with pytest.raises(StagewiseError, match="not valid gzip: it is damaged or cut short"):
            load_trace(path)


def test_gzip_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_module, "_LARGEST_BYTES", 1000)
    path = write(tmp_path, b" " * 1001, packed=True)
    with pytest.raises(StagewiseError, match="must unpack to at most 1000 bytes"):
        load_trace(path)


@pytest.mark.parametrize("variant", trace_module.VARIANTS)
def test_the_real_trace(data_dir, variant):
    path = data_dir / "availability-trace" / NAME
    trace = load_trace(path, variant)
    assert len(trace) == 300
    raw = json.loads(gzip.decompress(path.read_bytes()))["devices"]
    rng = np.random.default_rng(0)
    for moment in rng.uniform(300, trace.end_s, 20):
        expected = [
            [state for time, state in raw[name][variant] if time <= moment][-1] == "AVL_TRAIN"
            for name in trace.devices
        ]
        assert trace.online_at(moment).tolist() == expected


def test_the_real_trace_has_the_availability_its_notes_state(data_dir):
    trace = load_trace(data_dir / "availability-trace" / NAME)
    rounds = follow(random_scenario(0, clients=300), trace, 893, seed=0, round_seconds=600)
    assert np.mean([round_.online.mean() for round_ in rounds]) == pytest.approx(0.157, abs=0.01)
