"""Plan A by both planners: true figures, the optimum of small systems, and plan files."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from brute_force import best_plan, true_risks
from helpers import random_scenario
from references import plain_scenario
from stagewise.checker import check_plan
from stagewise.errors import StagewiseError
from stagewise.plan_a.planners import PLANNERS, plan
from stagewise.plans import Plan, load_plan, load_plan_record, save_plan
from stagewise.world.generate import numeric
from stagewise.world.scenario import Limits, Scenario

EASY = Limits(kld_max=0.5, data_min=80, kld_risk=0.5, data_risk=0.5)
RISKS = ("exact", "sampled", "markov")


def tiny(seed: int, limits: Limits = EASY) -> Scenario:
    return random_scenario(seed, clients=6, edges=2, labels=3, limits=limits, isolated=0)


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("method", PLANNERS)
@pytest.mark.parametrize("seed", range(4))
def test_everything_a_plan_says_is_true(method, risk, seed):
    scenario = random_scenario(seed, clients=12, edges=3, limits=EASY, reference=bool(seed % 2))
    made = plan(scenario, method=method, risk=risk, seed=seed)
    assert check_plan(scenario, made.record(), risk) == []
    assert (made.method, made.seed) == (method, seed)
    assert made.feasible == (made.violations == ())


@pytest.mark.parametrize("method", PLANNERS)
def test_a_plan_depends_on_its_arguments_alone(method):
    scenario = random_scenario(5, clients=20, edges=3, limits=EASY)
    first = plan(scenario, method=method, seed=3)
    plan(scenario, method=method, seed=4)
    np.testing.assert_array_equal(plan(scenario, method=method, seed=3).edge_of, first.edge_of)
    # The same system read again is the same problem.
    again = random_scenario(5, clients=20, edges=3, limits=EASY)
    np.testing.assert_array_equal(plan(again, method=method, seed=3).edge_of, first.edge_of)


@pytest.mark.parametrize("method", ["paper", "local-search"])
def test_the_seed_matters(method):
    """Neither search is exhaustive: from another seed some end elsewhere."""
    scenario = numeric(40, 3, 0, limits=Limits(data_min=1500))
    ends = {
        tuple(plan(scenario, method=method, seed=seed, seconds=1e-9).edge_of) for seed in range(4)
    }
    assert len(ends) > 1


@pytest.mark.parametrize("method", PLANNERS)
def test_small_systems_against_all_plans(method):
    """No planner beats the optimum or misjudges feasibility; ours finds the optimum."""
    solvable = found = optimal = 0
    for seed in range(40):
        scenario = tiny(seed)
        best, made = best_plan(scenario), plan(scenario, method=method)
        kld_risk, data_risk = true_risks(scenario)
        for edge in range(2):
            members = sum(1 << i for i in np.flatnonzero(made.edge_of == edge).tolist())
            assert made.kld_risk[edge] == pytest.approx(kld_risk[members], abs=1e-9)
            assert made.data_risk[edge] == pytest.approx(data_risk[members], abs=1e-9)
        if made.feasible:
            assert best.feasible
            assert made.objective >= best.value - 1e-9
        solvable += best.feasible
        found += made.feasible
        optimal += best.feasible and made.objective == pytest.approx(best.value, rel=1e-9)
    assert 10 < solvable < 40
    if method == "local-search":
        assert found >= solvable - 1
        assert optimal >= 0.95 * solvable
    else:
        assert found >= 0.8 * solvable


@pytest.mark.parametrize("method", PLANNERS)
def test_a_system_without_a_plan_gets_the_best_there_is(method):
    """Nobody can reach 10,000 samples: the plan says so, and keeps what can be kept."""
    hopeless = dataclasses.replace(EASY, data_min=10_000)
    scenario = random_scenario(3, clients=10, edges=2, limits=hopeless, certain=0)
    made = plan(scenario, method=method)
    assert not made.feasible
    for name, risk in zip(scenario.edges.ids, made.data_risk, strict=True):
        assert risk == pytest.approx(1)
        assert f"{name}: data risk 1 > data_risk 0.5" in made.violations
    assert check_plan(scenario, made.record()) == []


@pytest.mark.parametrize("method", PLANNERS)
def test_an_edge_that_covers_nobody_stays_empty(method):
    scenario = plain_scenario([[50, 50], [60, 40]], [[0], [0]], online=[1, 1])
    made = plan(scenario, method=method)
    assert made.violations == ("es1: no clients",)
    assert made.assignment.keys() <= {"c0", "c1"}
    assert set(made.assignment.values()) == {"es0"}


@pytest.mark.parametrize("method", PLANNERS)
def test_edges_without_capacity_serve_nobody(method):
    scenario = plain_scenario([[50, 50]] * 3, [[0, 1]] * 3, online=[1] * 3, capacity=[0, 2])
    made = plan(scenario, method=method)
    assert "es0" not in made.assignment.values()
    assert made.violations == ("es0: no clients",)


def test_the_literal_markov_bound_admits_no_plan_at_the_papers_settings():
    for seed in range(2):
        scenario = numeric(40, 2, seed)
        made = plan(scenario, risk="markov", seconds=0.2)
        assert not made.feasible
        # One client with three of ten labels has the least bound: log(10/3) / 0.2 = 6, times p.
        assert made.kld_risk.min() > 3
        assert check_plan(scenario, made.record(), "markov") == []


def test_a_time_limit_still_gives_a_whole_plan():
    scenario = random_scenario(1, clients=20, edges=3, limits=EASY)
    for method in PLANNERS:
        made = plan(scenario, method=method, seconds=1e-9)
        assert check_plan(scenario, made.record()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "oracle"}, "method = 'oracle': must be one of paper, "),
        ({"method": ""}, "method = ''"),
        ({"risk": "guess"}, "risk = 'guess': must be one of exact, sampled, markov"),
        ({"seed": -1}, "seed = -1: must be at least 0"),
        ({"seed": -1, "risk": "markov"}, "seed = -1: must be at least 0"),
        ({"seed": 1.5}, "seed = 1.5: must be a whole number"),
        ({"seconds": 0.0}, "seconds = 0.0"),
        ({"seconds": -1.0}, "seconds = -1.0"),
        ({"seconds": float("nan")}, "seconds = nan"),
    ],
)
def test_arguments_that_cannot_be(options, message):
    with pytest.raises(StagewiseError, match=message.replace("(", r"\(")) as error:
        plan(tiny(0), **options)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan(tiny(1), method="paper", seed=7)


def written(made: Plan, folder: Path, **changes: object) -> Path:
    """The plan's file with some fields changed; None takes a field out."""
    path = folder / "plan.json"
    save_plan(made, path)
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: v for name, v in content.items() if v is not None}))
    return path


def test_a_plan_file_round_trip(made, tmp_path):
    path = tmp_path / "plan.json"
    save_plan(made, path)
    loaded = load_plan(path, tiny(1))
    np.testing.assert_array_equal(loaded.edge_of, made.edge_of)
    assert loaded.record() == made.record()
    assert load_plan_record(path) == made.record()
    save_plan(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    content = json.loads(path.read_text())
    assert content["format"] == "stagewise-plan/1"
    assert content["scenario_sha256"] == made.scenario.sha256
    assert "library" not in content


def test_an_infeasible_plan_survives_the_round_trip(tmp_path):
    scenario = tiny(1, dataclasses.replace(EASY, data_min=10_000))
    made = plan(scenario, method="paper")
    save_plan(made, tmp_path / "plan.json")
    loaded = load_plan(tmp_path / "plan.json", scenario)
    assert not loaded.feasible
    assert loaded.violations == made.violations


def unlinked(scenario: Scenario) -> tuple[str, str]:
    """A client and an edge that does not cover it."""
    for client in range(len(scenario.clients)):
        for edge in range(len(scenario.edges)):
            if scenario.links.find(np.array([client]), np.array([edge]))[0] < 0:
                return scenario.clients.ids[client], scenario.edges.ids[edge]
    raise AssertionError("every edge covers every client")


def test_a_plan_of_another_scenario_is_refused(made, tmp_path):
    path = written(made, tmp_path)
    with pytest.raises(StagewiseError, match="scenario_sha256") as error:
        load_plan(path, tiny(2))
    assert str(path) in str(error.value)
    assert tiny(2).sha256 in str(error.value)


def test_what_a_plan_file_may_not_say(made, tmp_path):
    scenario = made.scenario
    client, edge = unlinked(scenario)
    edges = [vars_of(made, number) for number in range(2)]
    cases: list[tuple[dict, str]] = [
        ({"assignment": {"c99": "es0"}}, "'c99' must be the id of a client"),
        ({"assignment": {"c0": "es9"}}, r"assignment\['c0'\] = 'es9': must be the id of an edge"),
        ({"assignment": {client: edge}}, f"'{client}'.* = '{edge}': must be an edge that covers"),
        ({"edges": edges[:1]}, "edges: must be the scenario's edges"),
        ({"edges": edges[::-1]}, "edges: must be the scenario's edges"),
        ({"edges": [edges[0], edges[1] | {"x": 1}]}, "unknown field `x`"),
        ({"seed": -1}, "seed = -1: must be at least 0"),
        ({"seed": 0.5}, "seed = 0.5"),
        ({"seed": None}, "missing required field `seed`"),
        ({"format": "stagewise-plan/2"}, "format = 'stagewise-plan/2'"),
        ({"surprise": 1}, "unknown field `surprise`"),
        ({"objective": "1"}, "objective = '1'"),
        ({"feasible": 1}, "feasible = 1"),
        ({"assignment": [["c0", "es0"]]}, "assignment"),
        ({"delay_s": float("nan")}, "not valid JSON"),
        ({"energy_j": float("inf")}, "not valid JSON"),
    ]
    for changes, message in cases:
        path = written(made, tmp_path, **changes)
        with pytest.raises(StagewiseError, match=f"(?i){message}") as error:
            load_plan(path, scenario)
        assert str(error.value).startswith(f"{path}: ")
        assert "\n" not in str(error.value)


def vars_of(made: Plan, number: int) -> dict:
    edge = made.record().edges[number]
    return {name: getattr(edge, name) for name in edge.__struct_fields__}


def test_a_plan_above_an_edges_capacity_is_refused(tmp_path):
    scenario = plain_scenario([[50, 50]] * 3, [[0, 1]] * 3, online=[1] * 3, capacity=[1, 2])
    made = plan(scenario, method="paper")
    path = written(made, tmp_path, assignment={"c0": "es0", "c1": "es0", "c2": "es1"})
    with pytest.raises(StagewiseError, match=r"edge 'es0' has 2 clients: .* its capacity, 1"):
        load_plan(path, scenario)
    path = written(made, tmp_path, assignment={"c0": "es0", "c1": "es1", "c2": "es1"})
    assert load_plan(path, scenario).edge_of.tolist() == [0, 1, 1]


def test_files_that_are_no_plan(made, tmp_path):
    path = tmp_path / "plan.json"
    for content in (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 5000, b'{"format": 1}'):
        path.write_bytes(content)
        with pytest.raises(StagewiseError, match=str(path)):
            load_plan(path, made.scenario)
    with pytest.raises(StagewiseError, match="cannot be read: No such file"):
        load_plan(tmp_path / "missing.json", made.scenario)
    with pytest.raises(StagewiseError, match="cannot be read: Is a directory"):
        load_plan(tmp_path, made.scenario)


def test_a_large_plan_is_the_same_on_any_workers():
    """Sixty edges are planned by neighbourhoods; with clients in plenty every edge is within limits."""
    scenario = numeric(3000, 60, 1, limits=Limits(data_min=1000, kld_max=0.3))
    made = plan(scenario, method="local-search")
    with ThreadPoolExecutor(1) as executor:
        again = plan(scenario, method="local-search", executor=executor)
    np.testing.assert_array_equal(again.edge_of, made.edge_of)
    assert made.feasible
    assert check_plan(scenario, made.record()) == []


@pytest.mark.parametrize(
    ("method", "edges"), [*((method, 2) for method in PLANNERS), ("local-search", 60), ("pool", 60)]
)
def test_how_far_a_plan_is_changes_nothing_in_it(method, edges):
    """Shares rise from 0 to at most 1, and some come before the end."""
    scenario, shares = numeric(clients=15 * edges, edges=edges, seed=0), list[float]()
    watched = plan(scenario, method=method, progress=shares.append)
    assert np.array_equal(watched.edge_of, plan(scenario, method=method).edge_of)
    assert shares == sorted(shares)
    assert any(0 < share < 1 for share in shares)
    assert 0 < min(shares) <= max(shares) <= 1
