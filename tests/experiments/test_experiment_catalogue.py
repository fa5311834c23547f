"""Files of experiments: the good ones load, and every mistake is one line that names it."""

import tomllib
from typing import Any

import msgspec
import pytest
from experiment_cases import SMALL, small, write_small
from made_up_results import made_up

from stagewise.errors import StagewiseError
from stagewise_experiments.catalogue import by_todays_file, choose, experiments, load, load_all
from stagewise_experiments.cells import in_regime
from stagewise_experiments.experiment import Experiment
from stagewise_experiments.rules import check_experiment, setting_fields


def test_a_file_of_ones_own(tmp_path):
    assert load(str(write_small(tmp_path))) == small()


def test_every_experiment_of_the_library_is_valid():
    found = load_all()
    assert tuple(experiment.id for experiment in found) == experiments()
    assert len(set(experiments())) == len(found)
    assert [(e.order, e.id) for e in found] == sorted((e.order, e.id) for e in found)
    for experiment in found:
        assert set(experiment.profiles) == {"quick", "full"}


def test_choosing(tmp_path):
    path = str(write_small(tmp_path))
    assert choose([path, path]) == [small()]
    assert choose(["all"]) == load_all()
    other = tmp_path / "other"
    other.mkdir()
    changed = write_small(other, SMALL.replace("Two methods", "Others"))
    with pytest.raises(StagewiseError, match=r"id = 'small'.*another experiment"):
        choose([path, str(changed)])


@pytest.mark.parametrize("name", ["nonsense", "../setup", "", "small"])
def test_an_unknown_id(name):
    with pytest.raises(
        StagewiseError, match=r"experiment = .*must be all, a \.toml file or one of"
    ):
        load(name)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('id = "small"', 'id = "other"', "small.toml: id = 'other': must be the name of the file"),
        ('measure = "decisions"', 'measure = "luck"', "small.toml: measure = 'luck': invalid"),
        ("[setting]", "[settings]", "unknown field `settings`"),
        ("seeds = 2", 'seeds = "two"', "profiles"),
        ("rounds = 2", "rounds = 0", "rounds = 0: must be at least 1"),
        ("rounds = 2", "rouns = 2", "unknown field `rouns`"),
        ("clients = 12", "clients = 1.5", "scenario.clients = 1.5: expected `int`"),
        ("clients = 12", "clients = 0", "clients = 0: must be at least 1"),
        ("[0.5, 0.9]", "[0.5, 1.5]", "p_max"),
        ("[0.5, 0.9]", '[0.5, "much"]', "scenario.p_min = 'much': expected `float`"),
        ("id =", "id ==", "small.toml: not valid TOML"),
    ],
)
def test_a_mistake_in_a_file(tmp_path, before, after, message):
    path = write_small(tmp_path, SMALL.replace(before, after, 1))
    with pytest.raises(StagewiseError) as error:
        load(str(path))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{path}: ")
    assert any(part in str(error.value) for part in message.split("|")), str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StagewiseError, match=r"none\.toml: cannot be read"):
        load(str(tmp_path / "none.toml"))


AXIS = tomllib.loads(SMALL)["axes"][0]
FALLING = AXIS | {"values": AXIS["values"][::-1]}
WORLDS = {"name": "p", "label": "world", "values": ["plain", "mesh"], "fields": {"mesh": {}}}
PANEL = tomllib.loads(SMALL)["panels"][0]
CLAIM = {"text": "so", "quantity": "objective", "policy": "c2e-assoc-only", "below": 1.0}
ONLY_0_9 = {"seeds": 1, "values": {"p": [0.9]}}
PRINTED = {"quantity": "objective", "policy": "c2e-assoc-only", "value": 1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": []}, "policies = []: there must be at least one"),
        ({"policies": ["fedcs", "fedcs"]}, "policies = 'fedcs': must not be given twice"),
        ({"policies": ["luck"]}, "policies = 'luck': must be one of stagewise-paper, "),
        (
            {"policies": ["fedcs:no-such"]},
            "policies = 'fedcs:no-such': reading = 'no-such': must be one of re-association, ",
        ),
        (
            {"policies": ["oort+somewhere"]},
            "policies = 'oort+somewhere': associator = 'somewhere': must be one of nearest, ",
        ),
        ({"policies": ["fedcs:"]}, "policies = 'fedcs:': method = 'fedcs:': must be one of "),
        (
            {"policies": ["pool-flexible:back-tracking"]},
            "policies = 'pool-flexible:back-tracking': method = 'pool-flexible:back-tracking': "
            "pool-flexible has no readings",
        ),
        (
            {"measure": "planning", "policies": ["paper:back-tracking,steps=-1"]},
            "policies = 'paper:back-tracking,steps=-1': reading = 'back-tracking,steps=-1': must be",
        ),
        (
            {"measure": "risk", "policies": ["pool:back-tracking"]},
            "policies = 'pool:back-tracking': pool has no readings",
        ),
        ({"measure": "planning"}, "policies = 'c2e-assoc-only': must be one of paper, "),
        ({"quantities": ["luck"]}, "quantities = 'luck': must be one of accuracy, "),
        ({"quantities": ["over_optimum"]}, "quantities = 'over_optimum': needs the policy exact"),
        ({"axes": [AXIS, AXIS]}, "axes[1].name = 'p': must be a name that no other axis has"),
        (
            {"axes": [AXIS, AXIS | {"name": "q"}]},
            "axes[1].field = 'scenario.p_min': must not be set by two axes",
        ),
        ({"axes": [AXIS | {"field": "scenario"}]}, "axes[0].field = 'scenario': must be one of"),
        ({"axes": [AXIS | {"field": "seed"}]}, "axes[0].field = 'seed': must be one of"),
        ({"axes": [AXIS | {"values": []}]}, "axes[0].values = []: there must be at least one"),
        ({"axes": [AXIS | {"values": [1, 1.0]}]}, "axes[0].values = 1.0: must not be given twice"),
        ({"panels": []}, "panels = []: there must be at least one"),
        ({"panels": [PANEL | {"x": "q"}]}, "panels[0].x = 'q': must be one of p"),
        ({"panels": [PANEL | {"quantity": "luck"}]}, "panels[0].quantity = 'luck': must be"),
        ({"panels": [PANEL | {"policy": "fedcs"}]}, "panels[0].policy = 'fedcs': must be one of"),
        ({"panels": [PANEL | {"where": {"p": 0.7}}]}, "panels[0].where.p = 0.7: must be one of"),
        (
            {"panels": [PANEL | {"form": "matrix", "y": "p"}]},
            "panels[0].form = 'matrix': must have policy",
        ),
        (
            {"axes": [{**WORLDS, "fields": {"moon": {"rounds": 2}}}]},
            "axes[0].fields = 'moon': must be one of plain, mesh",
        ),
        (
            {
                "axes": [
                    AXIS,
                    {**WORLDS, "name": "w", "fields": {"mesh": {"scenario": {"p_min": 1}}}},
                ]
            },
            "axes[1].fields = 'scenario.p_min': must not be set by two axes",
        ),
        (
            {"policies": ["kld-minimization"], "quantities": ["cost_to_hard_target"]},
            "profiles.quick: quantity = 'cost_to_hard_target': needs stop_at_target = false",
        ),
        (
            {"axes": [{**WORLDS, "fields": {"mesh": {"seed": 2}}}]},
            "axes[0].fields.mesh.seed = 2: must not be given here",
        ),
        (
            {"axes": [{**WORLDS, "fields": {"mesh": {"speed": 2}}}]},
            "profiles.quick: object contains unknown field `speed`",
        ),
        ({"claims": [CLAIM | {"below": None}]}, "claims[0].text = 'so': must have below, above"),
        ({"claims": [CLAIM | {"at_most": ["fedcs"]}]}, "claims[0].at_most = 'fedcs': must be"),
        ({"claims": [CLAIM | {"rises_with": "q"}]}, "claims[0].rises_with = 'q': must be one of p"),
        (
            {"claims": [CLAIM | {"falls_with": "p"}], "axes": [FALLING]},
            "claims[0].falls_with = 'p': its values must rise, or the claim must have ends",
        ),
        ({"claims": [CLAIM | {"at": {"q": 1}}]}, "claims[0].at = 'q': must be one of p"),
        (
            {"claims": [CLAIM | {"ends": [0.5, 0.9]}]},
            "claims[0].ends = (0.5, 0.9): must have rises",
        ),
        (
            {"claims": [CLAIM | {"rises_with": "p", "ends": [0.5, 7]}]},
            "claims[0].ends = 7: must be one of 0.5",
        ),
        (
            {"panels": [PANEL | {"where": {"p": 0.5}}], "profiles": {"quick": ONLY_0_9}},
            "profiles.quick.values = {'p': [0.9]}: must keep a point of some panel",
        ),
        (
            {"claims": [CLAIM | {"missed": True}]},
            "claims[0].missed = True: must be of a quantity to a target",
        ),
        (
            {"claims": [CLAIM | {"somewhere": True}]},
            "claims[0].somewhere = True: must have at_most or at_least",
        ),
        (
            {"paper_values": [PRINTED | {"growth_from": {"p": 7}}]},
            "paper_values[0].growth_from.p = 7: must be one of 0.5",
        ),
        ({"claims": [CLAIM | {"headline": True}]}, "claims[0].headline = True: must have ours"),
        ({"paper_values": [PRINTED | {"minus": "fedcs"}]}, "paper_values[0].minus = 'fedcs'"),
        ({"paper_values": [PRINTED | {"quantity": "luck"}]}, "paper_values[0].quantity = 'luck'"),
        ({"by_policy": {"fedcs": {}}}, "by_policy = 'fedcs': must be one of c2e-assoc-only"),
        ({"setting": {"seed": 3}}, "setting.seed = 3: must not be given here"),
        ({"setting": {"dataset": "luck"}}, "profiles.quick: dataset = 'luck': must be"),
        (
            {"setting": {"scenario": {"task": "luck"}}},
            "profiles.quick: scenario.task = 'luck': must be one of mnist5k",
        ),
        ({"stand_ins": {"luck": {"dataset": "mnist"}}}, "stand_ins = 'luck': must be one of"),
        (
            {"stand_ins": {"mnist": {"dataset": "mnist"}}},
            "stand_ins.mnist.dataset = 'mnist': must be one of",
        ),
        (
            {"stand_ins": {"ali": {"dataset": "aid15", "setting": {"seed": 3}}}},
            "stand_ins.ali.setting.seed = 3: must not be given here",
        ),
        (
            {"stand_ins": {"ali": {"dataset": "aid15", "only": {"q": [1]}}}},
            "stand_ins.ali.only = 'q': must be one of p",
        ),
        (
            {"stand_ins": {"ali": {"dataset": "aid15", "only": {"p": [7]}}}},
            "stand_ins.ali.only.p = 7: must be one of 0.5",
        ),
        (
            {"stand_ins": {"ali": {"dataset": "aid15", "setting": {"scenario": {"p_min": 1}}}}},
            "stand_ins.ali.setting = 'scenario.p_min': must not be given here, or set by an axis",
        ),
        (
            {"stand_ins": {"ali": {"dataset": "aid15", "setting": {"dataset": "mnist"}}}},
            "stand_ins.ali.setting = 'dataset': must not be given here",
        ),
        (
            {"claims": [CLAIM | {"same_along": "p"}]},
            "claims[0].margin = 0.0: must be above 0 and below 1 for same_along",
        ),
        (
            {
                "setting": {"dataset": "ali"},
                "stand_ins": {"ali": {"dataset": "aid15", "setting": {"rounds": 0}}},
            },
            "profiles.quick, stand_ins.ali: rounds = 0: must be at least 1",
        ),
        ({"profiles": {}}, "profiles = {}: there must be quick, full or both"),
        ({"profiles": {"quick": {"seeds": 0}}}, "profiles.quick.seeds = 0: must be at least 1"),
        (
            {"profiles": {"quick": {"seeds": 1, "values": {"q": [1]}}}},
            "profiles.quick.values = 'q': must be one of p",
        ),
        (
            {"profiles": {"quick": {"seeds": 1, "values": {"p": []}}}},
            "profiles.quick.values.p = []: there must be at least one",
        ),
        (
            {"profiles": {"quick": {"seeds": 1, "setting": {"rounds": 0}}}},
            "profiles.quick: rounds = 0: must be at least 1",
        ),
    ],
)
def test_parts_that_do_not_fit(changes: dict[str, Any], message: str):
    with pytest.raises(StagewiseError) as error:
        check_experiment(small(**changes), "small.toml")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"small.toml: {message}"), str(error.value)


def test_values_of_either_profile_may_be_named():
    check_experiment(small(claims=[CLAIM | {"at": {"p": 0.25}}]), "small.toml")


@pytest.mark.parametrize("axis", [AXIS | {"fields": {"a": {}}}, {**WORLDS, "fields": {}}])
def test_an_axis_sets_one_field_or_tables_of_them(axis):
    with pytest.raises(msgspec.ValidationError, match="must have either field or fields"):
        small(axes=[axis])


def test_the_fields_an_axis_may_set():
    fields = set(setting_fields())
    assert {"dataset", "risk", "scenario.data_min", "participation.model"} <= fields
    assert not fields & {"scenario", "participation", "seed", "policy", "measure"}


def test_experiments_survive_json():
    encoded = msgspec.json.encode(small())
    assert msgspec.json.decode(encoded, type=Experiment) == small()


def test_a_result_is_told_as_the_file_has_it_now() -> None:
    """As long as the file still has its cells."""
    today = load("fig-causes-time")
    older = msgspec.structs.replace(today, about="As it was.", claims=[])
    assert by_todays_file(made_up(older)).experiment == today
    shorter = msgspec.structs.replace(older, setting={**older.setting, "dtype": "bfloat16"})
    assert by_todays_file(made_up(shorter)).experiment == shorter
    own = msgspec.structs.replace(older, id="my-own")
    assert by_todays_file(made_up(own)).experiment == own


def test_a_result_in_the_other_regime_is_told_so_too() -> None:
    today = load("fig-causes-time")
    literal = made_up(in_regime(msgspec.structs.replace(today, about="As it was."), "literal"))
    assert by_todays_file(literal).experiment == today
