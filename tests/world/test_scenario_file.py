"""Scenario files: nothing is lost on the way, and every rule has its message."""

import hashlib
import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from stagewise.errors import StagewiseError
from stagewise.world.estimator import estimate_from_history
from stagewise.world.scenario import Limits, Links, Scenario, Weights
from stagewise.world.scenario_file import load_scenario, save_scenario
from stagewise.world.scenario_json import json_parts

SUFFIXES = ("json", "safetensors")


def assert_same(a: Scenario, b: Scenario) -> None:
    for group, names in (
        ("clients", ("label_counts", "cpu_hz", "cycles_per_sample", "capacitance", "tx_power_w")),
        ("clients", ("batch_fraction", "online_probability", "position_m")),
        ("edges", ("capacity", "bandwidth_hz", "uplink_delay_s", "uplink_energy_j", "position_m")),
        ("links", ("start", "edge", "gain", "delay_s", "energy_j")),
    ):
        for name in names:
            first, second = getattr(getattr(a, group), name), getattr(getattr(b, group), name)
            assert (first is None) == (second is None), name
            if first is not None:
                np.testing.assert_array_equal(first, second, err_msg=f"{group}.{name}")
                assert first.dtype == second.dtype
    assert a.clients.ids == b.clients.ids
    assert a.edges.ids == b.edges.ids
    assert a.clients.history == b.clients.history
    for name in ("local_steps", "edge_rounds", "model_bits", "noise_w_per_hz", "window"):
        np.testing.assert_equal(getattr(a, name), getattr(b, name))
    assert (a.weights, a.limits) == (b.weights, b.limits)
    np.testing.assert_array_equal(a.target, b.target)
    assert (a.reference is None) == (b.reference is None)


def round_trip(scenario: Scenario, suffix: str) -> Scenario:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"s.{suffix}"
        save_scenario(scenario, path)
        return load_scenario(path)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    scenario = random_scenario(
        draw(st.integers(0, 2**31)),
        draw(st.integers(1, 8)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 5)),
        isolated=draw(st.sampled_from([0.0, 0.5, 1.0])),
        positions=draw(st.booleans()),
        reference=draw(st.booleans()),
        weights=Weights(*draw(st.tuples(*[st.floats(0, 1e6)] * 3))),
        limits=Limits(kld_max=draw(st.floats(0, 9)), data_min=draw(st.floats(0, 1e9))),
    )
    ids = draw(
        st.lists(
            st.text(st.characters(codec="utf-8"), min_size=1),
            min_size=len(scenario.clients),
            max_size=len(scenario.clients),
            unique=True,
        )
    )
    clients = replace(scenario.clients, ids=tuple(ids))
    window = draw(st.none() | st.integers(1, 5))
    if draw(st.booleans()):
        past = [draw(st.none() | st.text("01", min_size=1, max_size=9)) for _ in ids]
        estimates = [
            p if h is None else estimate_from_history(h, window or 10)
            for h, p in zip(past, clients.online_probability.tolist(), strict=True)
        ]
        if any(past):
            clients = replace(clients, history=tuple(past), online_probability=np.array(estimates))
    if clients.position_m is not None:
        places = clients.position_m.copy()
        places[np.array([draw(st.booleans()) for _ in ids])] = np.nan
        clients = replace(clients, position_m=None if np.isnan(places).all() else places)
    return replace(scenario, clients=clients, window=window)


@st.composite
def measured_scenarios(draw: st.DrawFn) -> Scenario:
    """Some links measured, some without energy, and what the model then does not need left out."""
    scenario = draw(scenarios())
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    clients, edges, links = scenario.clients, scenario.edges, scenario.links
    measured = rng.random(len(links)) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    energy_j = np.where(measured, rng.uniform(0, 5, len(links)), np.nan)
    if scenario.weights.energy == 0:
        energy_j[rng.random(len(links)) < 0.5] = np.nan
    links = replace(
        links,
        gain=np.where(measured, np.nan, links.gain),
        delay_s=np.where(measured, rng.uniform(0, 9, len(links)), np.nan),
        energy_j=energy_j,
    )

    def without(values: np.ndarray, needed: np.ndarray) -> np.ndarray:
        drop = rng.random(len(values)) < 0.7
        drop[needed] = False
        return np.where(drop, np.nan, values)

    by_gain = ~measured
    names = ("cpu_hz", "cycles_per_sample", "capacitance", "tx_power_w")
    left = {name: without(getattr(clients, name), links.client[by_gain]) for name in names}
    scalars = {} if by_gain.any() else {"model_bits": None, "noise_w_per_hz": None}
    limits = draw(st.sampled_from([scenario.limits, replace(scenario.limits, kld_max=math.inf)]))
    return replace(
        scenario,
        clients=replace(clients, **left),
        edges=replace(edges, bandwidth_hz=without(edges.bandwidth_hz, links.edge[by_gain])),
        links=links,
        limits=limits,
        **(scalars if draw(st.booleans()) else {}),
    )


def version(scenario: Scenario) -> str:
    return json.loads(b"".join(json_parts(scenario)))["format"].removeprefix("stagewise-scenario/")


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(scenario=scenarios() | measured_scenarios())
def test_nothing_is_lost_in_a_file(suffix, scenario):
    again = round_trip(scenario, suffix)
    assert_same(again, scenario)
    assert version(again) == version(scenario)


@given(scenarios())
def test_scenarios_of_the_model_alone_stay_version_1(scenario):
    assert version(scenario) == "1"


@pytest.mark.parametrize(
    "change",
    [
        {"limits": Limits(kld_max=math.inf)},
        {"links": {"gain": None, "delay_s": [1.0] * 3, "energy_j": [1.0] * 3}},
        {"links": {"delay_s": [1.0, math.nan, math.nan], "energy_j": [1.0, math.nan, math.nan]}},
        {"clients": {"cpu_hz": None}},
        {"clients": {"tx_power_w": [math.nan, 1]}},
        {"edges": {"bandwidth_hz": None}},
        {"model_bits": None},
        {"noise_w_per_hz": math.nan},
    ],
)
def test_anything_else_is_version_2(change):
    """Three links, all of them measured but where the change is to have a gain in the first two."""
    links = Links([0, 2, 3], [0, 1, 1], delay_s=[1, 2, 3.0], energy_j=[1, 1, 1.0])
    if "links" in change or "limits" in change:
        links = Links([0, 2, 3], [0, 1, 1], gain=[1e-9, 2e-9, 3e-9])
    base = replace(random_scenario(0, 2, 2, isolated=0), links=links)
    changes = {
        name: replace(getattr(base, name), **value) if isinstance(value, dict) else value
        for name, value in change.items()
    }
    if changes.get("links") is not None and not np.isnan(changes["links"].gain).all():
        gain = [math.nan, 2e-9, 3e-9]
        changes["links"] = replace(changes["links"], gain=gain)
    changed_one = replace(base, **changes)
    assert version(changed_one) == "2"
    for suffix in SUFFIXES:
        assert_same(round_trip(changed_one, suffix), changed_one)


@given(scenarios() | measured_scenarios())
def test_both_forms_are_the_same_scenario(scenario):
    assert round_trip(scenario, "json").sha256 == round_trip(scenario, "safetensors").sha256


def test_both_forms_of_the_defaults_are_the_same_scenario():
    scenario = random_scenario(0, limits=Limits())
    assert round_trip(scenario, "json").sha256 == scenario.sha256
    assert round_trip(scenario, "safetensors").sha256 == scenario.sha256


def test_the_digest_is_that_of_the_file_read(tmp_path):
    path = tmp_path / "s.json"
    save_scenario(random_scenario(3), path)
    assert load_scenario(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    loose = json.dumps(json.loads(path.read_text()), indent=2).encode()
    path.write_bytes(loose)
    assert load_scenario(path).sha256 == hashlib.sha256(loose).hexdigest()


def document(**changes) -> dict:
    """The contract's own example, completed."""
    client = {
        "id": "c0",
        "x": 12.0,
        "y": 40.5,
        "label_counts": [0, 310],
        "cpu_hz": 3.1e9,
        "cycles_per_sample": 4.1e5,
        "capacitance": 1e-28,
        "batch_fraction": 0.1,
        "tx_power_w": 0.4,
        "online_probability": 0.83,
        "links": {"es2": 1.1e-9, "es0": 4.2e-9},
    }
    edge = {
        "x": 91.8,
        "y": 103.9,
        "capacity": 10,
        "bandwidth_hz": 1e6,
        "uplink_delay_s": 0.18,
        "uplink_energy_j": 0.1,
    }
    return {
        "format": "stagewise-scenario/1",
        "local_steps": 5,
        "edge_rounds": 3,
        "model_bits": 698880,
        "noise_w_per_hz": 3.981e-21,
        "weights": {"delay": 0.5, "energy": 0.5, "continuity": 1.0},
        "limits": {
            "kld_max": 0.2,
            "data_min": 2500,
            "kld_margin": 0.0,
            "data_margin": 0,
            "kld_risk": 0.3,
            "data_risk": 0.3,
        },
        "reference": [0.25, 0.75],
        "edges": [{"id": name, **edge} for name in ("es0", "es1", "es2")],
        "clients": [client],
        **changes,
    }


def load(folder: Path, content: dict | bytes) -> Scenario:
    path = folder / "s.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return load_scenario(path)


def changed(*path: str | int, to: object) -> dict:
    """The example with one value replaced, or removed where `to` is None."""
    whole = document()
    # Only the first edge is linked, so that others may be renamed.
    whole["clients"][0]["links"] = {"es0": 4.2e-9}
    node = whole
    for step in path[:-1]:
        node = node[step]
    if to is None:
        del node[path[-1]]
    else:
        node[path[-1]] = to
    return whole


def test_the_contracts_example(tmp_path):
    scenario = load(tmp_path, document())
    assert scenario.clients.ids == ("c0",)
    assert scenario.edges.ids == ("es0", "es1", "es2")
    # Links are kept in the order of the edges, whatever their order in the file.
    assert scenario.links.edge.tolist() == [0, 2]
    assert scenario.links.gain.tolist() == [4.2e-9, 1.1e-9]
    assert scenario.clients.data.tolist() == [310]
    assert scenario.clients.position_m.tolist() == [[12.0, 40.5]]
    assert scenario.target.tolist() == [0.25, 0.75]


def test_optional_fields_may_be_absent(tmp_path):
    whole = changed("reference", to=None)
    for group in ("clients", "edges"):
        for record in whole[group]:
            del record["x"], record["y"]
    scenario = load(tmp_path, whole)
    assert scenario.target.tolist() == [0.5, 0.5]
    assert scenario.clients.position_m is scenario.edges.position_m is None


def test_a_history_stands_for_a_probability(tmp_path):
    whole = document(window=2)
    del whole["clients"][0]["online_probability"]
    whole["clients"][0]["history"] = "10011"
    scenario = load(tmp_path, whole)
    assert scenario.clients.online_probability[0] == pytest.approx(2 / 3)
    assert scenario.clients.history == ("10011",)
    del whole["window"]
    assert load(tmp_path, whole).clients.online_probability[0] == pytest.approx(3 / 5)


C, E, L = ("clients", 0), ("edges", 0), ("limits",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed("format", to="stagewise-scenario/3"), "format = 'stagewise-scenario/3': "),
        (changed("format", to=None), "missing required field `format`"),
        (changed("extra", to=1), "unknown field `extra`"),
        (changed(*C, "colour", to=1), r"clients\[0\].*unknown field `colour`"),
        (changed(*L, "kld_mx", to=1), r"limits.*unknown field `kld_mx`"),
        (changed("local_steps", to=0), "local_steps = 0: must be at least 1"),
        (changed("local_steps", to=2.5), "local_steps = 2.5: expected `int`"),
        (changed("edge_rounds", to=-1), "edge_rounds = -1: expected `int` >= 0"),
        (changed("model_bits", to=0), "model_bits = 0.0: must be a finite number above 0"),
        (changed("model_bits", to="big"), "model_bits = 'big': expected `float`"),
        (changed("noise_w_per_hz", to=-1), "noise_w_per_hz = -1.0"),
        (changed("window", to=0), "window = 0: must be at least 1"),
        (changed("weights", "delay", to=-0.5), "weights.delay = -0.5"),
        (changed("weights", "energy", to=None), "missing required field `energy`"),
        (changed(*L, "kld_max", to=-1), "limits.kld_max = -1.0: must be a finite number"),
        (changed(*L, "data_min", to=-1), "limits.data_min = -1.0"),
        (changed(*L, "kld_risk", to=1.5), "limits.kld_risk = 1.5: .* at most 1"),
        (changed(*L, "data_risk", to=-0.1), "limits.data_risk = -0.1"),
        (changed(*L, "kld_margin", to=0.3), "limits.kld_margin = 0.3: must be at most kld_max"),
        (changed("reference", to=[1.0]), "reference has 1 entries"),
        (
            changed("reference", to=[0.0, 1.0]),
            r"reference = \[0.0, 1.0\]: all entries must be above 0",
        ),
        (changed("reference", to=[0.5, 0.6]), "reference = .* sum to 1"),
        (changed("clients", to=[]), "clients: there must be at least one"),
        (changed("edges", 2, "id", to="es1"), r"edges\[2\].id = 'es1': must not occur twice"),
        (changed("edges", 1, "id", to=""), r"edges\[1\].id = '': must not be empty"),
        (changed(*E, "capacity", to=-1), r"edges\[0\].capacity = -1: expected `int` >= 0"),
        (changed(*E, "bandwidth_hz", to=0), r"edges\[0\] \('es0'\).bandwidth_hz = 0.0: .* above 0"),
        (changed(*E, "uplink_delay_s", to=-1), r"edges\[0\] \('es0'\).uplink_delay_s = -1.0"),
        (changed(*E, "uplink_energy_j", to=-1), r"edges\[0\] \('es0'\).uplink_energy_j = -1.0"),
        (
            changed(*E, "x", to=None),
            r"edges\[0\] \('es0'\): x and y must both be given, or neither",
        ),
        (changed(*C, "cpu_hz", to=0), r"clients\[0\] \('c0'\).cpu_hz = 0.0: .* above 0"),
        (
            changed(*C, "cycles_per_sample", to=-1),
            r"clients\[0\] \('c0'\).cycles_per_sample = -1.0",
        ),
        (changed(*C, "capacitance", to=-1), r"clients\[0\] \('c0'\).capacitance = -1.0"),
        (
            changed(*C, "batch_fraction", to=0),
            r"clients\[0\] \('c0'\).batch_fraction = 0.0: .* above",
        ),
        (changed(*C, "batch_fraction", to=1.1), r"batch_fraction = 1.1: .* at most 1"),
        (changed(*C, "tx_power_w", to=0), r"clients\[0\] \('c0'\).tx_power_w = 0.0"),
        (changed(*C, "online_probability", to=1.1), r"online_probability = 1.1: .* at most 1"),
        (changed(*C, "online_probability", to=None), "must have online_probability or history"),
        (changed(*C, "history", to="11"), "must have online_probability or history, and not both"),
        (
            changed(*C, "history", to="012"),
            r"clients\[0\].history = '012': expected `str` matching",
        ),
        (changed(*C, "label_counts", to=[]), "there must be at least one label"),
        (changed(*C, "label_counts", to=[0, 0]), r"data size \(sum of label_counts\) = 0"),
        (changed(*C, "label_counts", to=[1, -1]), r"label_counts\[1\] = -1: expected `int` >= 0"),
        (
            changed(*C, "links", to={"es9": 1e-9}),
            r"clients\[0\] \('c0'\).links: 'es9' must be the id",
        ),
        (
            changed(*C, "links", to={"es0": 0}),
            r"clients\[0\] \('c0'\).links\['es0'\] = 0.0: .* above 0",
        ),
        (
            changed(*C, "cpu_hz", to=1e300),
            r"clients\[0\] \('c0'\): the delay or energy .* too large",
        ),
        (changed(*C, "y", to=None), r"clients\[0\] \('c0'\): x and y must both be given"),
        (b"", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[]", "expected `object`"),
        (b"{", "not valid JSON"),
        (json.dumps(document()).replace("698880", "NaN").encode(), "not valid JSON"),
        (json.dumps(document()).replace("698880", "1e999").encode(), "out of range"),
        (b'{"format": 3, "deep": ' + b"[" * 100_000, "format|not valid"),
    ],
)
def test_every_rule_has_its_message(tmp_path, content, message):
    with pytest.raises(StagewiseError, match=f"(?i){message}") as error:
        load(tmp_path, content)
    assert str(error.value).startswith(f"{tmp_path / 's.json'}: ")
    assert "\n" not in str(error.value)


M = {"delay_s": 0.41, "energy_j": 1.7}


def version_2(**changes) -> dict:
    """A file of version 2 with one measured client, without anything that may be left out."""
    return {
        "format": "stagewise-scenario/2",
        "local_steps": 5,
        "edge_rounds": 3,
        "weights": {"delay": 1, "energy": 1, "continuity": 1},
        "limits": {**document()["limits"], "kld_max": None},
        "edges": [{"id": "es0", "capacity": 10, "uplink_delay_s": 0.18, "uplink_energy_j": 0.1}],
        "clients": [
            {"id": "c0", "label_counts": [3, 4], "online_probability": 0.5, "links": {"es0": M}}
        ],
        **changes,
    }


def test_the_least_file_of_version_2(tmp_path):
    scenario = load(tmp_path, version_2())
    assert (scenario.costs.delay_s.tolist(), scenario.costs.energy_j.tolist()) == ([0.41], [1.7])
    assert scenario.clients.batch_fraction.tolist() == [0.1]
    assert scenario.limits.kld_max == math.inf
    assert math.isnan(scenario.model_bits)


def test_gains_and_measured_links_side_by_side(tmp_path):
    whole = document(format="stagewise-scenario/2")
    whole["clients"][0]["links"]["es0"] = M
    scenario = load(tmp_path, whole)
    modelled = load(tmp_path, document()).costs
    assert scenario.costs.delay_s.tolist() == [0.41, modelled.delay_s[1]]
    assert scenario.costs.energy_j.tolist() == [1.7, modelled.energy_j[1]]


def test_energies_may_be_absent_where_they_have_no_weight(tmp_path):
    whole = version_2()
    whole["clients"][0]["links"] = {"es0": {"delay_s": 2}}
    with pytest.raises(StagewiseError, match=r"links\['es0'\].energy_j = nan: must be given"):
        load(tmp_path, whole)
    whole["weights"]["energy"] = 0
    assert load(tmp_path, whole).costs.energy_j.tolist() == [0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("clients", 0, "links"), {"es0": 1e-9}, "model_bits must be given where a link has a"),
        (("clients", 0, "links"), {"es0": {"delay_s": -1, "energy_j": 1}}, "delay_s = -1.0: must"),
        (("clients", 0, "links"), {"es0": {"delay_s": 1, "energy_j": -1}}, "energy_j = -1.0: must"),
        (("clients", 0, "links"), {"es0": {"energy_j": 1}}, "missing required field `delay_s`"),
        (("clients", 0, "links"), {"es0": {**M, "gain": 1}}, "unknown field `gain`"),
        (("clients", 0, "links"), {"es0": None}, "expected `float \\| object`, got `null`"),
        (("clients", 0, "links"), {"es9": M}, "'es9' must be the id of an edge"),
        (("clients", 0, "cpu_hz"), None, "expected `float`, got `null`"),
        (("clients", 0, "cpu_hz"), -1, "cpu_hz = -1.0: must be a finite number above 0"),
        (("model_bits",), -1, "model_bits = -1.0: must be a finite number above 0"),
        (("limits", "data_min"), None, "expected `float`, got `null`"),
    ],
)
def test_rules_of_version_2(tmp_path, path, value, message):
    whole = version_2()
    node = whole
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    with pytest.raises(StagewiseError, match=f"(?i){message}"):
        load(tmp_path, whole)


@pytest.mark.parametrize("name", ["cpu_hz", "cycles_per_sample", "capacitance", "tx_power_w"])
def test_the_model_needs_its_fields_where_there_is_a_gain(tmp_path, name):
    whole = document(format="stagewise-scenario/2")
    del whole["clients"][0][name]
    with pytest.raises(StagewiseError, match=rf"clients\[0\] \('c0'\).{name} must be given where"):
        load(tmp_path, whole)
    whole["clients"][0]["links"] = {"es0": M}
    load(tmp_path, whole)


def test_a_batch_fraction_is_needed_where_there_is_a_gain(tmp_path):
    whole = document(format="stagewise-scenario/2")
    del whole["clients"][0]["batch_fraction"]
    with pytest.raises(StagewiseError, match=r"\('c0'\).batch_fraction must be given where"):
        load(tmp_path, whole)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("clients", 0, "links"),
            {"es0": M},
            "links: must be channel gains in stagewise-scenario/1",
        ),
        (("clients", 0, "cpu_hz"), None, "cpu_hz must be given"),
        (("clients", 0, "batch_fraction"), None, "batch_fraction must be given"),
        (("edges", 1, "bandwidth_hz"), None, "bandwidth_hz must be given in stagewise-scenario/1"),
        (("model_bits",), None, "model_bits must be given"),
        (("limits", "kld_max"), None, "limits.kld_max = inf: must be finite in"),
    ],
)
@pytest.mark.parametrize("linked", [True, False])
def test_version_1_is_read_strictly(tmp_path, path, value, message, linked):
    """Also where the field is not needed, since the client has no link."""
    whole = document()
    if not linked and path[-1] != "links":
        whole["clients"][0]["links"] = {}
    node = whole
    for step in path[:-1]:
        node = node[step]
    if value is None and path[-1] != "kld_max":
        del node[path[-1]]
    else:
        node[path[-1]] = value
    with pytest.raises(StagewiseError, match=message):
        load(tmp_path, whole)


def test_version_1_is_read_strictly_from_the_binary_form(tmp_path):
    path = tmp_path / "s.safetensors"
    save_scenario(replace(random_scenario(1), limits=Limits(kld_max=math.inf)), path)
    path.write_bytes(path.read_bytes().replace(b"stagewise-scenario/2", b"stagewise-scenario/1"))
    with pytest.raises(StagewiseError, match=r"limits\.kld_max = inf: must be finite in"):
        load_scenario(path)


def test_there_must_be_an_edge(tmp_path):
    whole = document(edges=[])
    whole["clients"][0]["links"] = {}
    with pytest.raises(StagewiseError, match="edges: there must be at least one"):
        load(tmp_path, whole)


def test_clients_must_agree_on_the_number_of_labels(tmp_path):
    whole = document()
    whole["clients"].append({**whole["clients"][0], "id": "c1", "label_counts": [1, 2, 3]})
    with pytest.raises(StagewiseError, match=r"clients\[1\] \('c1'\).label_counts has 3 entries"):
        load(tmp_path, whole)


def test_two_clients_of_one_id_are_refused(tmp_path):
    whole = document()
    whole["clients"] *= 2
    with pytest.raises(StagewiseError, match=r"clients\[1\].id = 'c0': must not occur twice"):
        load(tmp_path, whole)


@given(st.data())
def test_a_damaged_binary_file_never_raises_anything_else(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.safetensors"
        save_scenario(random_scenario(1), path)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        try:
            load_scenario(path)
        except StagewiseError as error:
            assert str(error).startswith(f"{path}: ")


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "s.json"
    save_scenario(random_scenario(1), path)
    before = path.read_bytes()
    with pytest.raises(StagewiseError, match="cannot be written"):
        save_scenario(random_scenario(2), tmp_path / "no" / "s.json")
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.json"]
