"""The cells of an experiment: how many, in which order, with which fields."""

import msgspec
import pytest
from experiment_cases import small

from stagewise.errors import StagewiseError
from stagewise_experiments.catalogue import load, load_all
from stagewise_experiments.cells import cells_of
from stagewise_experiments.setting import Setting


def places(cells):
    return [(cell.point["p"], cell.policy, cell.seed) for cell in cells]


def test_every_point_policy_and_seed_in_a_fixed_order():
    policies = ("c2e-assoc-only", "client-sel-only")
    expected = [(p, name, seed) for p in (0.5, 0.9) for name in policies for seed in (0, 1)]
    assert places(cells_of(small(), "quick")) == expected
    assert [cell.setting.scenario.p_min for cell in cells_of(small(), "quick")] == [
        p for p, _, _ in expected
    ]


def test_a_profile_has_values_seeds_and_fields_of_its_own():
    cells = cells_of(small(), "full")
    assert {cell.point["p"] for cell in cells} == {0.25, 0.5}
    assert {cell.seed for cell in cells} == {10, 11, 12}
    assert {cell.setting.rounds for cell in cells} == {3}
    # Only what the profile names is replaced in a table.
    assert {(c.setting.scenario.clients, c.setting.scenario.edges) for c in cells} == {(15, 2)}
    assert {cell.setting.rounds for cell in cells_of(small(), "quick")} == {2}


def test_the_number_of_seeds_can_be_given():
    assert len(cells_of(small(), "quick", seeds=5)) == 4 * 5
    with pytest.raises(StagewiseError, match="seeds = 0: must be at least 1"):
        cells_of(small(), "quick", seeds=0)


def test_policies_have_fields_of_their_own_and_axes_come_last():
    table = {"rounds": 7, "scenario": {"p_min": 0.1, "edges": 3}}
    cells = cells_of(small(by_policy={"client-sel-only": table}), "full")
    seen = {(c.policy, c.setting.rounds, c.setting.scenario.edges) for c in cells}
    assert seen == {("c2e-assoc-only", 3, 2), ("client-sel-only", 7, 3)}
    assert all(cell.setting.scenario.p_min == cell.point["p"] for cell in cells)


def test_a_value_of_an_axis_may_stand_for_several_fields():
    worlds = {
        "name": "world",
        "label": "world",
        "values": ["plain", "busy"],
        "fields": {"busy": {"rounds": 9, "scenario": {"edges": 5}}},
    }
    experiment = small(axes=[worlds], profiles={"full": {"seeds": 1}})
    before = repr(experiment)
    seen = {
        (c.point["world"], c.setting.rounds, c.setting.scenario.edges)
        for c in cells_of(experiment, "full")
    }
    plain = small(axes=[], profiles={"full": {"seeds": 1}})
    own = cells_of(plain, "full")[0].setting
    assert seen == {("plain", own.rounds, own.scenario.edges), ("busy", 9, 5)}
    assert repr(experiment) == before


def test_a_number_may_stand_for_several_fields_too():
    numbers = {"name": "n", "label": "n", "values": [1, 2], "fields": {"2": {"rounds": 8}}}
    cells = cells_of(small(axes=[numbers], profiles={"full": {"seeds": 1}}), "full")
    assert {(c.point["n"], c.setting.rounds == 8) for c in cells} == {(1, False), (2, True)}


def test_tables_of_the_file_stay_as_they_are():
    experiment = small(by_policy={"client-sel-only": {"scenario": {"edges": 3}}})
    before = repr(experiment)
    cells_of(experiment, "full")
    assert repr(experiment) == before


def test_a_missing_data_set_gives_way_to_its_stand_in():
    experiment = small(setting={"dataset": "ali"}, stand_ins={"ali": {"dataset": "aid15"}})
    assert {c.setting.dataset for c in cells_of(experiment, "quick", missing={"ali"})} == {"aid15"}
    assert {c.setting.dataset for c in cells_of(experiment, "quick", missing={"mnist"})} == {"ali"}
    both = cells_of(experiment, "quick", missing={"ali", "aid15"})
    assert {c.setting.dataset for c in both} == {"ali"}
    alone = small(setting={"dataset": "ali"})
    assert {c.setting.dataset for c in cells_of(alone, "quick", missing={"ali"})} == {"ali"}


def test_a_point_never_names_a_data_set_that_does_not_run():
    axis = {"name": "d", "field": "dataset", "values": ["mnist", "ali"], "label": "data"}
    profiles = {"quick": {"seeds": 1}}
    experiment = small(axes=[axis], profiles=profiles, stand_ins={"ali": {"dataset": "aid15"}})
    cells = cells_of(experiment, "quick", missing={"ali"})
    assert [cell.point["d"] for cell in cells] == ["mnist"] * 2 + ["aid15"] * 2
    assert all(cell.point["d"] == cell.setting.dataset for cell in cells)


def test_a_stand_in_has_settings_and_values_of_its_own():
    stand_in = {
        "dataset": "aid15",
        "setting": {"target_accuracy": 0.3, "scenario": {"edges": 3}},
        "only": {"p": [0.25, 0.9]},
    }
    experiment = small(
        setting={"dataset": "ali", "target_accuracy": 0.85},
        by_policy={"client-sel-only": {"target_accuracy": 0.6}},
        stand_ins={"ali": stand_in},
    )
    real = cells_of(experiment, "full")
    assert {c.setting.target_accuracy for c in real} == {0.85, 0.6}
    assert {c.setting.scenario.edges for c in real} != {3}
    assert len({c.point["p"] for c in real}) > 1
    cells = cells_of(experiment, "full", missing={"ali"})
    assert {c.setting.target_accuracy for c in cells} == {0.3}
    assert {(c.setting.scenario.edges, c.setting.scenario.clients) for c in cells} == {(3, 15)}
    assert {c.point["p"] for c in cells} == {0.25}
    assert {c.policy for c in cells} == {c.policy for c in real}


def test_what_a_stand_in_sets_is_for_its_own_cells_alone():
    axis = {"name": "d", "field": "dataset", "values": ["mnist", "ali"], "label": "data"}
    other = {"name": "p", "field": "scenario.p_min", "values": [0.5, 0.9], "label": "p"}
    stand_in = {"dataset": "aid15", "setting": {"target_accuracy": 0.3}, "only": {"p": [0.9]}}
    experiment = small(
        axes=[axis, other], profiles={"quick": {"seeds": 1}}, stand_ins={"ali": stand_in}
    )
    cells = cells_of(experiment, "quick", missing={"ali"})
    assert {(c.point["d"], c.point["p"], c.setting.target_accuracy == 0.3) for c in cells} == {
        ("mnist", 0.5, False),
        ("mnist", 0.9, False),
        ("aid15", 0.9, True),
    }


def test_without_axes_there_is_one_point():
    cells = cells_of(small(axes=[], profiles={"quick": {"seeds": 1}}), "quick")
    assert [cell.point for cell in cells] == [{}, {}]


def test_a_profile_that_the_experiment_does_not_have():
    with pytest.raises(StagewiseError, match="profile = 'full': small has only quick"):
        cells_of(small(profiles={"quick": {"seeds": 1}}), "full")


def test_a_setting_read_back_from_its_file_is_the_same() -> None:
    """Or else what another machine has kept would be run again, and shared cells counted twice."""
    for experiment in load_all():
        for cell in cells_of(experiment, "full", seeds=1):
            record = msgspec.json.encode(cell.setting)
            assert msgspec.json.encode(msgspec.json.decode(record, type=Setting)) == record


def test_the_four_sets_share_their_base() -> None:
    """100 clients, 4 edges, data_min 2500 and p from 0.5: whichever of them is varied."""
    base = [
        {msgspec.json.encode(cell.setting) for cell in cells_of(load(f"fig-cost-set{n}"), "full")}
        for n in (1, 2, 3, 4)
    ]
    shared = set.intersection(*base)
    assert len(shared) == 8 * 5
