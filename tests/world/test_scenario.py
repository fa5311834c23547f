"""Scenarios made in Python: coerced, copied and frozen; rules across clients, edges and links."""

import copy
import math
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from helpers import random_scenario
from stagewise.errors import StagewiseError
from stagewise.world.costs import link_costs
from stagewise.world.generate import numeric
from stagewise.world.scenario import Clients, Edges, Limits, Links, Scenario, Weights

NAN = math.nan


def arrays(scenario: Scenario) -> dict[str, np.ndarray]:
    parts = {name: getattr(scenario, name) for name in ("clients", "edges", "links")}
    found = {f"{name}.{f.name}": getattr(p, f.name) for name, p in parts.items() for f in fields(p)}
    found |= {"reference": scenario.reference, "target": scenario.target}
    found |= {"data": scenario.clients.data, "client": scenario.links.client}
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}


def small(links: Links | None = None, **changes) -> Scenario:
    """Two clients, two edges; client a reaches both, client b the second."""
    measured = Links([0, 2, 3], [0, 1, 1], delay_s=[1, 2, 3], energy_j=[4, 5, 6])
    return Scenario(
        Clients(["a", "b"], [[3, 1], [0, 2]], [0.5, 1]),
        Edges(["x", "y"], [2, 2], [0.1, 0.2], [0.3, 0.4]),
        measured if links is None else links,
        **({"model_bits": None, "noise_w_per_hz": None} | changes),
    )


def test_lists_become_arrays_of_their_type():
    scenario = small(reference=[0.25, 0.75], window=np.int64(4), local_steps=np.int32(2))
    assert scenario.clients.ids == ("a", "b")
    assert scenario.clients.label_counts.dtype == scenario.links.edge.dtype == np.int64
    assert scenario.edges.capacity.dtype == np.int64
    assert scenario.links.delay_s.dtype == scenario.reference.dtype == np.float64
    assert (type(scenario.window), type(scenario.local_steps)) == (int, int)
    assert scenario.costs.delay_s.tolist() == [1, 2, 3]
    assert scenario.costs.energy_j.tolist() == [4, 5, 6]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.uint64, np.float32, ">i4", ">f8", object])
def test_whole_numbers_of_any_type_are_counts(dtype):
    counts = np.array([[3, 1], [0, 2]], dtype=dtype)
    made = Clients(["a", "b"], counts, [0.5, 1])
    assert made.label_counts.tolist() == [[3, 1], [0, 2]]
    assert made.label_counts.dtype == np.int64


def test_every_array_is_frozen_and_contiguous():
    for scenario in (small(reference=[0.5, 0.5]), random_scenario(1), numeric(20, 2)):
        for name, array in arrays(scenario).items():
            assert not array.flags.writeable, name
            # What is not given takes the memory of one value.
            assert array.flags.c_contiguous or array.strides == (0,), name
        with pytest.raises(ValueError, match="read-only"):
            scenario.links.edge[0] = 7


def test_compiled_loops_get_arrays_that_are_not_frozen():
    assert all(array.flags.writeable for array in small().clients.label_rows)


def test_nothing_of_the_callers_is_shared():
    counts, edge = np.array([[3, 1], [0, 2]]), np.array([0, 1, 1])
    view = edge[:]
    view.flags.writeable = False
    scenario = replace(
        small(Links([0, 2, 3], view, delay_s=[1, 2, 3], energy_j=[4, 5, 6])),
        clients=Clients(["a", "b"], counts, [0.5, 1]),
    )
    counts[0, 0] = edge[0] = 99
    assert scenario.clients.label_counts[0, 0] == 3
    assert scenario.links.edge[0] == 0
    assert counts.flags.writeable


def test_what_is_frozen_already_is_not_copied():
    scenario = random_scenario(1)
    again = replace(
        scenario, clients=replace(scenario.clients, history=None), weights=Weights(1, 0)
    )
    for name, array in arrays(scenario).items():
        if name not in ("data", "target"):
            assert arrays(again)[name] is array, name


@pytest.mark.parametrize("way", [lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy])
def test_another_process_gets_frozen_arrays_too(way):
    scenario = random_scenario(1, reference=True)
    _ = scenario.clients.label_rows, scenario.costs
    again = way(scenario)
    assert again.sha256 == scenario.sha256
    for name in ("clients", "edges", "links"):
        for field in fields(getattr(again, name)):
            value = getattr(getattr(again, name), field.name)
            assert not isinstance(value, np.ndarray) or not value.flags.writeable, field.name
    assert all(array.flags.writeable for array in again.clients.label_rows)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (([1, 2, 3], [0, 1, 1]), "links.start = [1, 2, 3]: must begin with 0"),
        (([0, 3, 2], [0, 1]), "links.start[2] = 2: must not be below the one before, 3"),
        (([0, 2, 4], [0, 1, 1]), "links.start[2] = 4: must be the number of links, 3"),
        (([0, 3], [0, 1, 1]), "links.start has 2 entries: must have one more than the 2 clients"),
        (([0, 2, 3], [0, 2, 1]), "clients[0] ('a').links.edge = 2: must be below 2, the number of"),
        (([0, 2, 3], [0, 1, -1]), "clients[1] ('b').links.edge = -1: must be at least 0"),
        (([0, 2, 3], [1, 0, 1]), "clients[0] ('a').links.edge = 0: edges must ascend within a"),
        (([0, 2, 3], [1, 1, 1]), "clients[0] ('a').links.edge = 1: edges must ascend within a"),
        (([0, 2, 3], [0, 0.5, 1]), "links.edge[1] = 0.5: must be a whole number"),
    ],
)
def test_links_that_cannot_be(links, message):
    with pytest.raises(StagewiseError) as error:
        small(Links(*links, delay_s=np.ones(len(links[1])), energy_j=np.ones(len(links[1]))))
    assert message in str(error.value)


def test_edges_may_begin_again_with_each_client():
    made = small(Links([0, 2, 3], [0, 1, 0], delay_s=[1, 1, 1], energy_j=[1, 1, 1]))
    assert made.links.edge.tolist() == [0, 1, 0]
    nobody = small(Links([0, 0, 0], []))
    assert len(nobody.links) == 0
    assert small(Links([0, 0, 1], [1], delay_s=[1], energy_j=[1])).links.client.tolist() == [1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"delay_s": [1, NAN, 1], "energy_j": [1, NAN, 1]},
            "['y'].delay_s = nan: a link must have",
        ),
        ({"gain": [1, NAN, NAN], "delay_s": [1, 2, 3]}, "['x'].delay_s = 1.0: a link must have"),
        (
            {"gain": [1, NAN, NAN], "delay_s": [NAN, 2, 3], "energy_j": [1, 2, 3]},
            "must only be given",
        ),
        ({"delay_s": [1, -2, 1]}, "clients[0] ('a').links['y'].delay_s = -2.0: must be a finite"),
        ({"delay_s": [1, 2, math.inf]}, "clients[1] ('b').links['y'].delay_s = inf: must be"),
        ({"delay_s": [1, 2, 3], "energy_j": [1, NAN, 3]}, "['y'].energy_j = nan: must be given"),
        ({"gain": [1e-9, 0, 1e-9]}, "clients[0] ('a').links['y'] = 0.0: must be a finite"),
        ({"gain": [1e-9, 1e-9, 1e-9]}, "model_bits must be given where a link has a channel gain"),
    ],
)
def test_costs_that_cannot_be(values, message):
    with pytest.raises(StagewiseError) as error:
        small(Links([0, 2, 3], [0, 1, 1], **values))
    assert message in str(error.value)


def test_the_models_fields_are_needed_by_the_links_with_a_gain_alone():
    links = Links(
        [0, 2, 3], [0, 1, 1], gain=[1e-9, NAN, NAN], delay_s=[NAN, 2, 3], energy_j=[NAN, 1, 1]
    )
    clients = Clients(
        *(["a", "b"], [[3, 1], [0, 2]], [0.5, 1]),
        cpu_hz=[1e9, NAN],
        cycles_per_sample=[1e5, NAN],
        capacitance=[1e-28, NAN],
        tx_power_w=[0.5, NAN],
    )
    edges = Edges(["x", "y"], [2, 2], [0.1, 0.2], [0.3, 0.4], bandwidth_hz=[1e6, NAN])
    made = Scenario(clients, edges, links)
    assert made.costs.delay_s[1:].tolist() == [2, 3]
    assert made.costs.delay_s[0] > 0
    for part, name in (("clients", "cpu_hz"), ("clients", "tx_power_w"), ("edges", "bandwidth_hz")):
        without = {part: replace(getattr(made, part), **{name: None})}
        with pytest.raises(StagewiseError, match=rf"{part}\[0\] \('[ax]'\).{name} must be given"):
            replace(made, **without)


def test_energy_must_be_known_where_it_has_a_weight():
    links = Links([0, 2, 3], [0, 1, 1], delay_s=[1, 2, 3])
    made = small(links, weights=Weights(energy=0))
    assert made.costs.energy_j.tolist() == [0, 0, 0]
    with pytest.raises(StagewiseError, match="energy_j = nan: must be given where the weight of"):
        replace(made, weights=Weights(energy=0.1))


def test_balance_need_not_matter():
    assert small(limits=Limits(kld_max=math.inf)).limits.kld_max == math.inf
    assert Limits(kld_max=np.float64(0.5)).kld_max == 0.5
    for wrong in (NAN, -1, -math.inf, "inf", None, True):
        with pytest.raises(StagewiseError, match=r"limits\.kld_max = "):
            Limits(kld_max=wrong)


def test_as_of_bakes_in_what_a_round_changes():
    scenario = random_scenario(2, 8, 3)
    rng = np.random.default_rng(0)
    links = len(scenario.links)
    changes = {
        "cpu_hz": np.where(rng.random(8) < 0.5, NAN, rng.uniform(1e9, 2e9, 8)),
        "gain": np.where(rng.random(links) < 0.5, NAN, rng.uniform(1e-9, 2e-9, links)),
        "delay_s": np.where(rng.random(links) < 0.7, NAN, rng.uniform(1, 2, links)),
        "energy_j": np.where(rng.random(links) < 0.7, NAN, rng.uniform(1, 2, links)),
    }
    for kept in range(16):
        some = {name: v for bit, (name, v) in enumerate(changes.items()) if kept >> bit & 1}
        expected, found = link_costs(scenario, **some), scenario.as_of(**some).costs
        np.testing.assert_array_equal(found.delay_s, expected.delay_s)
        np.testing.assert_array_equal(found.energy_j, expected.energy_j)
    likely = np.linspace(0, 1, 8)
    now = scenario.as_of(online_probability=likely, **changes)
    assert now.clients.online_probability.tolist() == likely.tolist()
    assert now.clients.history is None
    assert now.sha256 != scenario.sha256
    # A gain takes the place of what was measured, where the model can use it.
    back = now.as_of(gain=scenario.links.gain, cpu_hz=scenario.clients.cpu_hz)
    np.testing.assert_array_equal(back.costs.delay_s, scenario.costs.delay_s)
    assert not back.links.measured.any()


def test_a_gain_needs_the_model():
    with pytest.raises(StagewiseError, match=r"clients\[0\] \('a'\).cpu_hz must be given where"):
        link_costs(small(), gain=np.array([1e-9, NAN, NAN]))


@pytest.mark.parametrize("name", ["cpu_hz", "gain", "delay_s", "energy_j", "online_probability"])
@pytest.mark.parametrize("wrong", [[1.0], "x", [[1.0, 2.0]], [None, 1.0, 1.0], np.ones(50)])
def test_as_of_refuses_what_does_not_fit(name, wrong):
    with pytest.raises(StagewiseError, match=name):
        random_scenario(2, 8, 3).as_of(**{name: wrong})


def test_surrogates_cannot_be_written_and_are_refused():
    with pytest.raises(
        StagewiseError, match=r"edges\[0\].id = .* must be text that UTF-8 can hold"
    ):
        Edges(["\ud800"], [1], [1.0], [1.0])


def test_an_energy_that_was_not_measured_stays_unknown():
    tables = {
        "clients": [{"id": "a", "online_probability": 1, "label_0": 5}],
        "edges": [{"id": "e", "capacity": 1, "uplink_delay_s": 0, "uplink_energy_j": 0}],
        "links": [{"client": "a", "edge": "e", "delay_s": 1.5}],
    }
    scenario = Scenario.from_tables(**tables, weights=Weights(energy=0))
    later = scenario.as_of(delay_s=np.array([2.5]))
    assert later.costs.delay_s.tolist() == [2.5]
    assert np.isnan(later.links.energy_j).all()
    links = later.links
    again = scenario.as_of(gain=links.gain, delay_s=links.delay_s, energy_j=links.energy_j)
    assert again.sha256 == later.sha256
