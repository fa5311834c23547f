"""Instances by name: the same everywhere, and what is known of them holds."""

from dataclasses import replace
from importlib.metadata import version
from itertools import product

import msgspec
import numpy as np
import pytest

import stagewise
from stagewise.cli.main import main
from stagewise.deciding import solve
from stagewise.errors import StagewiseError
from stagewise.instances import benchmark as benchmarks
from stagewise.instances.benchmark import benchmark, score_of
from stagewise.instances.best_known import (
    BestKnown,
    best_known,
    read_best_known,
    write_best_known,
)
from stagewise.instances.catalogue import digest_of, instance_names, load_instance, load_instances

SMALL = [name for name, one in load_instances().items() if one.size in ("tiny", "tight", "paper")]


def test_names_are_different_and_every_instance_has_a_digest():
    assert len(set(instance_names())) == len(instance_names()) > 25
    assert all(len(load_instance(name).sha256) == 64 for name in instance_names())
    with pytest.raises(StagewiseError, match=r"instance = 'moon': must be one of chain-10x2, "):
        load_instance("moon")


@pytest.mark.parametrize("name", [*SMALL, "numeric-300x12-1", "numeric-1000x40-5"])
def test_an_instance_is_what_others_have(name):
    instance = load_instance(name)
    scenario, rounds = instance.make()
    clients, _, edges = name.partition("x")
    if "-set" not in name:
        assert len(scenario.clients) == int(clients.rpartition("-")[2])
        assert len(scenario.edges) == int(edges.partition("-")[0])
    assert [round_.index for round_ in rounds] == list(range(instance.rounds))
    with pytest.raises(StagewiseError, match=f"{name}: its digest is"):
        replace(instance, seed=instance.seed + 1).make()


@pytest.mark.parametrize(
    "name", [name for name, one in load_instances().items() if one.size == "real"]
)
def test_real_systems_are_made_of_their_data(name, data_dir):
    instance = load_instance(name)
    scenario, _ = instance.make()
    assert f"{len(scenario.clients)}x{len(scenario.edges)}" in name
    assert all((data_dir / file).is_file() for file in instance.files)


def test_a_real_system_without_its_data(monkeypatch, tmp_path):
    monkeypatch.setenv("STAGEWISE_DATA", str(tmp_path))
    with pytest.raises(StagewiseError, match=r"comp|gateway.*not found"):
        load_instance("nycmesh-184x6").make()


def test_a_published_instance_is_never_changed():
    """Digests as they were published, of the first of each class."""
    published = {
        "tight-30x3-1": "bc07293887efd451",
        "paper-100x4-1": "d09a2e7be8dcc520",
        "numeric-1000x40-1": "5643b3509954760b",
        "numeric-1000000x10000-1": "0f511f46205e5f3a",
        "eua-cbd-816x125": "225fac9fd2636d2b",
        "nycmesh-184x6": "b4a45a791b0f486c",
    }
    assert {name: load_instance(name).sha256[:16] for name in published} == published


def test_the_only_feasible_keys_of_a_chain_are_the_expensive_ones():
    """Every way to give each edge a client with labels 0 to 4, written out."""
    scenario, rounds = load_instance("chain-20x4").make()
    edges = len(scenario.edges)
    reached = {
        name: scenario.links.edge[scenario.links.start[i] : scenario.links.start[i + 1]].tolist()
        for i, name in enumerate(scenario.clients.ids)
    }
    keys = [name for name in reached if name.startswith("key")]
    ways = [
        way
        for way in product(*(reached[key] for key in keys))
        if sorted(way) == list(range(edges))  # one key for each edge
    ]
    assert ways == [tuple(range(edges))]
    for decision in solve(scenario, rounds[:2], "exact"):
        assert decision.feasible
        served = dict(zip(scenario.clients.ids, decision.edge_of.tolist(), strict=True))
        assert [served[key] for key in keys] == list(range(edges))
        assert not any(served[name] >= 0 for name in served if name.startswith("decoy"))
    for decision in solve(scenario, rounds[:2], "c2e-greedy-assoc"):
        assert not decision.feasible


def test_base_stations_of_the_metro_can_have_ten_users_each(data_dir):
    """A flow over links with room for ten at each site: what the placement promises."""
    scenario, _ = load_instance("eua-metro-411x35").make()
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    clients, edges = len(scenario.clients), len(scenario.edges)
    client = np.repeat(np.arange(clients), np.diff(scenario.links.start))
    seats = np.concatenate([scenario.links.edge * 10 + seat for seat in range(10)])
    graph = csr_matrix((np.ones(len(seats)), (np.tile(client, 10), seats)), (clients, 10 * edges))
    assert (maximum_bipartite_matching(graph, perm_type="row") >= 0).all()


@pytest.mark.parametrize(
    "name", ["chain-40x8", "tiny-20x3-3", "tight-30x3-1", "paper-100x4-2", "paper-set2-3"]
)
def test_what_is_known_is_true(name):
    """`exact` finds nothing better than the best known, and no value is below the bound."""
    scenario, rounds = load_instance(name).make()
    known = best_known(name)
    assert len(known) == len(rounds)
    for decision, best in zip(solve(scenario, rounds[:2], "exact"), known, strict=False):
        assert best.value is not None
        assert best.bound is not None
        assert best.bound <= best.value * (1 + 1e-9)
        assert decision.objective >= best.bound * (1 - 1e-9)
        assert decision.lower_bound <= best.value * (1 + 1e-9)
        assert decision.objective == pytest.approx(best.value, rel=1e-3)


def test_everything_known_is_of_an_instance_and_of_its_rounds():
    for name, known in read_best_known().items():
        assert len(known) == load_instance(name).rounds
        for one in known:
            assert (one.value is None) == (not one.by) or one.bound is not None
            assert one.gap is None or one.gap >= 0


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (BestKnown(), BestKnown(3.0, "a"), BestKnown(3.0, "a")),
        (BestKnown(3.0, "a"), BestKnown(2.0, "b", 1.0, "b"), BestKnown(2.0, "b", 1.0, "b")),
        (
            BestKnown(2.0, "a", 1.5, "a"),
            BestKnown(2.0, "b", 1.0, "b"),
            BestKnown(2.0, "a", 1.5, "a"),
        ),
        (
            BestKnown(2.0, "a", 1.0, "a"),
            BestKnown(None, "", 1.9, "b"),
            BestKnown(2.0, "a", 1.9, "b"),
        ),
    ],
)
def test_only_what_is_better_replaces(first, second, both):
    assert first.with_(second) == both


def test_what_is_known_survives_its_file(tmp_path):
    known = {"a": [BestKnown(2.0, "x", 1.0, "y"), BestKnown()]}
    write_best_known(known, tmp_path / "known.json")
    assert read_best_known(tmp_path / "known.json") == known
    (tmp_path / "known.json").write_text("{}")
    assert read_best_known(tmp_path / "known.json") == {}


def test_a_score_counts_what_was_feasible(monkeypatch):
    scenario, rounds = load_instance("paper-100x4-1").make()
    decisions = solve(scenario, rounds[:3], "pool")
    cost = [decision.objective for decision in decisions]
    times = [decision.decision_ms for decision in decisions]
    known = [BestKnown(cost[0] / 2, "x", cost[0] / 4), BestKnown(2 * cost[1], "x"), BestKnown()]
    monkeypatch.setattr(benchmarks, "best_known", lambda name: known)
    score = score_of("mine", cost, times, 1.5)
    assert (score.rounds, score.feasible, score.could_be, score.new_best) == (3, 3, 2, 2)
    assert score.over_best == pytest.approx((2 + 0.5) / 2)
    assert score.over_bound == pytest.approx(4)
    monkeypatch.setattr(benchmarks, "best_known", lambda name: [])
    assert score_of("mine", cost, times, None).over_best is None
    score = score_of("mine", [None, *cost[1:]], times, None)
    assert (score.feasible, score.costs) == (2, (None, *cost[1:]))


def test_a_policy_of_ones_own_has_a_score():
    def nobody(scenario, *, seed, seconds):
        return Nobody()

    [score] = benchmark(nobody, ["tight-30x3-1"])
    assert (score.feasible, score.over_best, score.plan_s) == (0, None, None)


class Nobody(stagewise.Policy):
    def decide(self, round_):
        return stagewise.Answer(np.full(len(round_.online), -1))


def test_the_commands(tmp_path, capsys):
    assert main(["instances", "--size", "paper"]) == 0
    assert "paper-100x4-1" in capsys.readouterr().out
    assert main(["instances", "--json"]) == 0
    listed = msgspec.json.decode(capsys.readouterr().out)
    assert [one["name"] for one in listed] == instance_names()
    assert main(["instances", "tight-30x3-1", "-o", str(tmp_path / "a")]) == 0
    scenario = stagewise.load_scenario(tmp_path / "a" / "scenario.json")
    made, rounds = load_instance("tight-30x3-1").make()
    assert scenario.sha256 == made.sha256
    read = stagewise.load_rounds(tmp_path / "a" / "rounds.jsonl", scenario)
    assert [r.online.tolist() for r in read] == [r.online.tolist() for r in rounds]
    command = ["benchmark", "c2e-greedy-assoc", "--instances", "tight-30x3-1"]
    assert main([*command, "--json"]) == 0
    [score] = msgspec.json.decode(capsys.readouterr().out)
    assert (score["instance"], score["rounds"]) == ("tight-30x3-1", 5)
    assert main(command) == 0
    assert version("stagewise-hfl") in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    [
        "chain-15x3",
        "tiny-12x2-1",
        "paper-set2-7",
        "numeric-300x12-1",
        "numeric-1000x40-1",
        "numeric-10000x200-2",
        "eua-metro-411x35",
        "aiotwin-24x5",
        "nycmesh-184x6",
    ],
)
def test_an_instance_of_every_class_survives_its_files(name, tmp_path, request):
    instance = load_instance(name)
    if instance.files:
        request.getfixturevalue("data_dir")
    assert main(["instances", name, "-o", str(tmp_path)]) == 0
    scenario = stagewise.load_scenario(tmp_path / "scenario.json")
    rounds = stagewise.load_rounds(tmp_path / "rounds.jsonl", scenario)
    assert digest_of(scenario, list(rounds)) == instance.sha256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["instances", "moon", "-o", "x"], "instance = 'moon': must be one of"),
        (["instances", "tight-30x3-1"], "must have -o"),
        (["instances", "--size", "vast"], "--size = 'vast': must be one of tiny, tight, paper"),
        (["benchmark", "luck"], "method = 'luck'"),
        (["benchmark", "pool", "--instances", "moon"], "instance = 'moon'"),
        (["benchmark", "pool", "--instances", "a", "--size", "paper"], "must be only one of them"),
        (["benchmark", "pool", "--size", "tight", "--seconds", "0"], "seconds = 0"),
    ],
)
def test_mistakes(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
