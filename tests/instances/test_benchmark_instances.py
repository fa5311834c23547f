"""Instances by name: the same everywhere, and what is known of them holds."""

from dataclasses import replace
from importlib.metadata import version

import msgspec
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
from stagewise.instances.catalogue import instance_names, load_instance, load_instances

SMALL = [name for name, one in load_instances().items() if one.size in ("tight", "paper")]


def test_names_are_different_and_every_instance_has_a_digest():
    assert len(set(instance_names())) == len(instance_names()) > 25
    assert all(len(load_instance(name).sha256) == 64 for name in instance_names())
    with pytest.raises(StagewiseError, match=r"instance = 'moon': must be one of tight-30x3-1, "):
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


@pytest.mark.parametrize("name", ["eua-window-93x4", "eua-cbd-816x125", "nycmesh-184x6"])
def test_real_systems_are_made_of_their_data(name, data_dir):
    instance = load_instance(name)
    scenario, _ = instance.make()
    assert f"{len(scenario.clients)}x{len(scenario.edges)}" in name
    assert all((data_dir / file).is_file() for file in instance.files)


def test_a_real_system_without_its_data(monkeypatch, tmp_path):
    monkeypatch.setenv("STAGEWISE_DATA", str(tmp_path))
    with pytest.raises(StagewiseError, match=r"comp|gateway.*not found"):
        load_instance("nycmesh-184x6").make()


@pytest.mark.parametrize("name", ["tight-30x3-1", "paper-100x4-2", "paper-set2-3"])
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
    known = [BestKnown(cost[0] / 2, "x", cost[0] / 4), BestKnown(2 * cost[1], "x"), BestKnown()]
    monkeypatch.setattr(benchmarks, "best_known", lambda name: known)
    score = score_of("mine", decisions, 1.5)
    assert (score.rounds, score.feasible, score.could_be, score.new_best) == (3, 3, 2, 2)
    assert score.over_best == pytest.approx((2 + 0.5) / 2)
    assert score.over_bound == pytest.approx(4)
    monkeypatch.setattr(benchmarks, "best_known", lambda name: [])
    assert score_of("mine", decisions, None).over_best is None


def test_a_policy_of_ones_own_has_a_score():
    def nobody(scenario, *, seed, seconds):
        return Nobody()

    [score] = benchmark(nobody, ["tight-30x3-1"])
    assert (score.feasible, score.over_best, score.plan_s) == (0, None, None)


class Nobody(stagewise.Policy):
    def decide(self, round_):
        import numpy as np

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
    ("arguments", "message"),
    [
        (["instances", "moon", "-o", "x"], "instance = 'moon': must be one of"),
        (["instances", "tight-30x3-1"], "must have -o"),
        (["instances", "--size", "tiny"], "--size = 'tiny': must be one of tight, paper"),
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
