"""Thousands of scenarios that cannot be: always one `StagewiseError` on one line, and nothing else."""

import copy
import csv
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import random_scenario
from stagewise.errors import StagewiseError
from stagewise.world.scenario import Clients, Edges, Limits, Links, Scenario, Weights
from stagewise.world.scenario_file import load_scenario, save_scenario

LEAST = 2000
KINDS = {"clients": Clients, "edges": Edges, "links": Links, "weights": Weights, "limits": Limits}
NAN, INF = math.nan, math.inf


class Hostile:
    """Refuses to be an array, with an error of its own."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("not me")


def loop() -> list:
    nested: list = []
    nested.append(nested)
    return nested


def values_of(scenario: Scenario) -> dict[str, dict[str, Any]]:
    """Everything a scenario is made of, ready to be changed."""
    return {
        name: {f.name: getattr(getattr(scenario, name), f.name) for f in fields(kind)}
        for name, kind in KINDS.items()
    }


def build(values: dict[str, dict[str, Any]], **scalars: Any) -> Scenario:
    return Scenario(**{name: kind(**values[name]) for name, kind in KINDS.items()}, **scalars)


SMALL = random_scenario(3, clients=5, edges=3, isolated=0)


def by_gain() -> dict[str, dict[str, Any]]:
    return values_of(SMALL)


def measured() -> dict[str, dict[str, Any]]:
    values = by_gain()
    links = len(values["links"]["edge"])
    values["links"] |= {"gain": None, "delay_s": np.linspace(1, 2, links)}
    values["links"] |= {"energy_j": np.linspace(2, 3, links)}
    return values


NEVER_ARRAYS: list[Any] = [
    *("text", b"bytes", 3, 2.5, True, {}, {1: 2}, {1, 2}, object(), Hostile(), loop(), range, 1j),
    *(
        np.array(3.0),
        np.array("x"),
        iter([1, 2]),
        lambda: 1,
        np.zeros(0),
        np.zeros((2, 2, 2)),
        [],
        (),
    ),
]


def damaged(array: np.ndarray) -> Iterator[Any]:
    """Arrays like `array` that no field can have."""
    listed = array.tolist()
    flat = array.reshape(-1)
    yield from (array[:-1], array[1:], np.concatenate([array, array[:1]]), array[None], [listed])
    yield from (array.astype(bool), array.astype(str), array.astype(complex), array.astype("S"))
    yield from ([*listed[:-1], [1]], [*listed, "x"], [*listed, None], array.astype("M8[s]"))
    yield np.ma.masked_array(array, mask=np.ones_like(array, dtype=bool))
    odd = [
        "x",
        "1",
        b"1",
        None,
        True,
        np.True_,
        object(),
        [1],
        (),
        {},
        Decimal(1),
        Fraction(1, 2),
        1j,
    ]
    for value in (
        *odd,
        10**400,
        -(10**400),
        np.str_("1"),
        np.datetime64(1, "s"),
        INF,
        -INF,
        -1,
        -0.5,
    ):
        for place in {0, len(flat) - 1}:
            entries = flat.astype(object)
            entries[place] = value
            yield entries.reshape(array.shape).tolist()
            changed = np.empty(array.shape, dtype=object)
            changed[...] = entries.reshape(array.shape)
            yield changed


def array_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, make in (("by gain", by_gain), ("measured", measured)):
        whole = make()
        for group in ("clients", "edges", "links"):
            for field, array in whole[group].items():
                if not isinstance(array, np.ndarray):
                    continue
                position = field == "position_m"
                bad = [*NEVER_ARRAYS, *damaged(array)]
                if array.dtype == np.int64:
                    bad += [array + 0.5, array * NAN, array.astype(np.uint64) + np.uint64(2**63)]
                    bad += [np.full_like(array, 2**62), np.full(array.shape, 1e300)]
                if field in ("online_probability", "batch_fraction"):
                    bad += [np.full(array.shape, 1.01), np.full(array.shape, 1 + 1e-9)]
                for number, value in enumerate(bad):
                    if position and not _refused_as_position(value):
                        continue
                    yield (
                        f"{name}: {group}.{field}, {number}: {value!r}"[:200],
                        lambda make=make, group=group, field=field, value=value: build(
                            _with(make(), group, field, value)
                        ),
                    )


def _refused_as_position(value: Any) -> bool:
    """Places may be negative, and nowhere."""
    try:
        array = np.asarray(value, dtype=float)
    except Exception:
        return True
    return array.shape != (5, 2) and array.shape != (3, 2)


def _with(values: dict[str, dict[str, Any]], group: str, field: str, value: Any) -> Any:
    values[group][field] = value
    return values


def link_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    base = by_gain()["links"]
    start, edge = base["start"].tolist(), base["edge"].tolist()
    for number in range(len(start)):
        for wrong in (-1, start[-1] + 1, 2**62, start[number] + 100):
            yield (
                f"start[{number}] = {wrong}",
                lambda n=number, w=wrong: _links(start=[*start[:n], w, *start[n + 1 :]]),
            )
    for number in range(len(edge)):
        for wrong in (-1, 3, 2**62, -(2**62), 0.5):
            yield (
                f"edge[{number}] = {wrong}",
                lambda n=number, w=wrong: _links(edge=[*edge[:n], w, *edge[n + 1 :]]),
            )
    for client in range(len(start) - 1):
        row = edge[start[client] : start[client + 1]]
        if len(row) > 1:
            for wrong in (row[::-1], [row[0]] * len(row)):
                made = [*edge[: start[client]], *wrong, *edge[start[client + 1] :]]
                yield f"row {client} = {wrong}", lambda made=made: _links(edge=made)
    for number in range(len(edge)):
        for name in ("gain", "delay_s"):
            for wrong in (0 if name == "gain" else -1.0, NAN, INF, -INF, -1e-9):
                values = [1.0] * number + [wrong] + [1.0] * (len(edge) - number - 1)
                more = {"gain": None, "energy_j": [1.0] * len(edge)} if name == "delay_s" else {}
                yield (
                    f"{name}[{number}] = {wrong}",
                    lambda name=name, values=values, more=more: _links(**more, **{name: values}),
                )


def _links(**changes: Any) -> Scenario:
    values = by_gain()
    values["links"] |= changes
    return build(values)


NEVER_NUMBERS: list[Any] = [
    *("1", "", b"1", [], [1], (), {}, object(), Hostile(), True, False, np.True_, 1j, Decimal(1)),
    *(Fraction(1, 2), np.array([1.0]), NAN, -INF, -1, -1e-12, np.float64(NAN), 10**400, -(10**400)),
]


def scalar_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    for kind, name in ((Weights, "delay"), (Weights, "energy"), (Weights, "continuity")):
        for wrong in (*NEVER_NUMBERS, None, INF, np.inf):
            yield f"weights.{name} = {wrong!r}", lambda k=kind, n=name, w=wrong: k(**{n: w})
    for field in fields(Limits):
        extra = () if field.name == "kld_max" else (INF,)
        extra += (1.01, 2) if field.name.endswith("risk") else ()
        for wrong in (*NEVER_NUMBERS, None, *extra):
            yield f"limits.{field.name} = {wrong!r}", lambda n=field.name, w=wrong: Limits(**{n: w})
    for name in ("local_steps", "edge_rounds", "window"):
        for wrong in (*NEVER_NUMBERS, 0, 1.5, 5.0, 2**31, INF, np.float64(3)):
            yield f"{name} = {wrong!r}", lambda n=name, w=wrong: build(by_gain(), **{n: w})
    for name in ("model_bits", "noise_w_per_hz"):
        for wrong in (*NEVER_NUMBERS, None, 0, 0.0, INF):
            yield f"{name} = {wrong!r}", lambda n=name, w=wrong: build(by_gain(), **{n: w})
    for wrong in (
        *NEVER_ARRAYS,
        [1.0],
        [0.5] * 4,
        [0.25] * 5,
        [0, 0, 0, 1],
        [2, -1, 0.5, -0.5],
        [NAN] * 4,
    ):
        yield f"reference = {wrong!r}", lambda w=wrong: build(by_gain(), reference=w)
    for name in KINDS:
        for wrong in (None, 3, "x", [], {}, object(), KINDS, Clients):
            yield (
                f"{name} = {wrong!r}",
                lambda n=name, w=wrong: replace(build(by_gain()), **{n: w}),
            )
    for wrong in (3, b"x", [], object()):
        yield f"file_sha256 = {wrong!r}", lambda w=wrong: build(by_gain(), file_sha256=w)


def id_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    for group, count in (("clients", 5), ("edges", 3)):
        good = [f"n{i}" for i in range(count)]
        odd = [3, None, b"x", 1.5, True, ["x"], (), object(), "", "n0", "\ud800", "a\udfff"]
        wrong = [[*good[:-1], value] for value in odd]
        wrong += [None, 3, "n0", {"n0"}, {}, iter(good), [], (), good[:-1], [*good, "more"], [good]]
        wrong.append(np.array(good))
        for ids in wrong:
            yield (
                f"{group}.ids = {ids!r}",
                lambda group=group, ids=ids: build(_with(by_gain(), group, "ids", ids)),
            )
    for past in (
        "x",
        3,
        [],
        ["0"] * 4,
        ["0"] * 4 + ["2"],
        [0] * 5,
        [""] * 5,
        [b"0"] * 5,
        ["1\n"] * 5,
    ):
        yield (
            f"history = {past!r}",
            lambda past=past: build(_with(by_gain(), "clients", "history", past)),
        )


ALL = (array_cases, link_cases, scalar_cases, id_cases)


@pytest.mark.parametrize("cases", ALL, ids=lambda cases: cases.__name__)
@pytest.mark.filterwarnings("error")
def test_every_malformed_construction_is_a_stagewise_error(cases):
    wrong = []
    for name, make in cases():
        try:
            made = make()
        except StagewiseError as error:
            if "\n" in str(error) or "must" not in str(error):
                wrong.append(f"{name}: not a rule in one line: {error}")
        except BaseException as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
        else:
            wrong.append(f"{name}: accepted as {made}")
    assert not wrong, "\n".join(wrong[:40])


def test_there_are_enough_of_them():
    assert sum(1 for cases in ALL for _ in cases()) >= LEAST


def test_the_constructions_are_fine_without_the_damage():
    assert build(by_gain()).links.measured.sum() == 0
    assert build(measured()).links.measured.all()


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([np.float32(1), np.int8(-1), np.array([1, 2]), np.array([[0.5]]), 10**400]),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.data())
def test_anything_in_any_field_is_accepted_or_a_stagewise_error(data):
    values = data.draw(st.sampled_from([by_gain, measured]))()
    for _ in range(data.draw(st.integers(1, 3))):
        group = data.draw(st.sampled_from(sorted(values)))
        field = data.draw(st.sampled_from(sorted(values[group])))
        values[group][field] = data.draw(ANYTHING)
    try:
        scenario = build(values)
    except StagewiseError:
        return
    assert len(scenario.sha256) == 64


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.sampled_from(["list", "fortran", "view", "object", "narrow"]))
def test_valid_values_in_any_form_are_accepted(seed, form):
    scenario = random_scenario(seed, clients=6, edges=3, reference=True)
    values = values_of(scenario)
    for group in ("clients", "edges", "links"):
        for field, array in values[group].items():
            if isinstance(array, np.ndarray):
                values[group][field] = _in_form(array, form)
    again = build(values, reference=_in_form(scenario.reference, form))
    expected = replace(scenario, reference=again.reference)
    assert again.sha256 == expected.sha256


def _in_form(array: np.ndarray, form: str) -> Any:
    if form == "list":
        return array.tolist()
    if form == "fortran":
        return np.asfortranarray(array)
    if form == "view":
        return np.repeat(array, 2, axis=0)[::2]
    if form == "object":
        return array.astype(object)
    return array.astype(np.int32) if array.dtype == np.int64 else array.astype(np.longdouble)


def paths_in(node: Any, here: tuple = ()) -> Iterator[tuple]:
    if here:
        yield here
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in items:
        yield from paths_in(value, (*here, key))


BAD_JSON = [None, "x", -1, -0.5, 10**30, 1e300, [], {}, [1], {"a": 1}, True, "", [[]], 0, "es0"]


@pytest.mark.parametrize("make", [by_gain, measured])
def test_damaged_records_in_a_file(tmp_path, make):
    path = tmp_path / "s.json"
    save_scenario(build(make()), path)
    whole = json.loads(path.read_bytes())
    whole["clients"], whole["edges"] = whole["clients"][1:2], whole["edges"][:2]
    whole["clients"][0]["links"].pop("es2", None)
    refused = 0
    for place in paths_in(whole):
        for value in BAD_JSON:
            changed = copy.deepcopy(whole)
            node = changed
            for step in place[:-1]:
                node = node[step]
            node[place[-1]] = value
            refused += _loads_or_refuses(path, json.dumps(changed).encode())
    assert refused > 300


def test_damaged_cells_in_a_table(tmp_path):
    tables = {
        "clients": [{"id": "a", "online_probability": 0.5, "label_0": 3, "x": 1, "y": 2}],
        "edges": [{"id": "e", "capacity": 2, "uplink_delay_s": 0.1, "uplink_energy_j": 0.2}],
        "links": [{"client": "a", "edge": "e", "delay_s": 0.4, "energy_j": 1.0}],
    }
    Scenario.from_tables(**tables)
    cells = [*BAD_JSON, object(), b"1", 1j, NAN, INF, Decimal(1), np.array([1]), Hostile(), 10**400]
    refused = 0
    for name, rows in tables.items():
        for column in (*rows[0], "history", "gain", "colour", 7):
            for cell in cells:
                changed = tables | {name: [rows[0] | {column: cell}]}
                try:
                    Scenario.from_tables(**changed)
                except StagewiseError as error:
                    refused += 1
                    assert "\n" not in str(error)
                refused += _csv_refused(tmp_path, changed, name)
    assert refused > 400


def _csv_refused(folder: Path, tables: dict[str, list[dict]], name: str) -> bool:
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(tables[name][0])
        writer.writerow(tables[name][0].values())
    try:
        Scenario.from_tables(**(tables | {name: path}))
    except StagewiseError as error:
        assert "\n" not in str(error)
        return True
    return False


def _loads_or_refuses(path: Path, content: bytes) -> bool:
    path.write_bytes(content)
    try:
        load_scenario(path)
    except StagewiseError as error:
        assert str(error).startswith(f"{path}: ")
        assert "\n" not in str(error)
        return True
    return False
