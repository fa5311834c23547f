"""A policy of ten lines gets outages, remedies, resume and a deployment with nothing of its own."""

from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest
from live_cases import ScriptedTransport, play, run_in, two_edges

from stagewise import Answer, Policy, plug_ins
from stagewise.checker import check
from stagewise.cli.main import main
from stagewise.decisions import load_decision_records
from stagewise.deploy.status import read_status
from stagewise.policies import registry
from stagewise.randomness import generator


class AtRandom(Policy):
    """Everyone serves an edge drawn among those it can reach."""

    def __init__(self, scenario, seed=0, seconds=None):
        self.seed = seed

    def decide(self, round_):
        rng, links = generator(self.seed, "at random", round_.index), round_.scenario.links
        edge_of = np.full(len(round_.online), -1)
        for link in rng.permutation(np.flatnonzero(round_.usable)):
            edge_of[links.client[link]] = links.edge[link]
        return Answer(edge_of)


GONE = {1: ["c0", "es0"], 2: ["es1"], 4: ["c1", "c3"], 5: ["es0", "c5"]}


@pytest.mark.parametrize("remedy", [None, "drop"])
def test_clients_and_edges_that_come_and_go(remedy):
    scenario = two_edges(data_min=90)
    policy = AtRandom(scenario)
    _, played = play(ScriptedTransport(scenario, GONE), rounds=6, policy=policy, remedy=remedy)
    decisions = [one.decision for one in played]
    assert check(scenario, decisions, [decision.round for decision in decisions]) == []
    for decision in decisions:
        edges_up = [bool(up) for up in decision.round.edges_up]
        assert all(edges_up[edge] for edge in decision.edge_of[decision.edge_of >= 0])
        if remedy == "drop":  # whoever trains does so at an edge within its limits
            served = decision.evaluation.clients > 0
            assert not (decision.evaluation.failing & served).any()


def test_a_run_that_was_stopped_ends_as_one_that_was_not(tmp_path):
    scenario = two_edges(data_min=90)

    def stop(order, trained):
        if order.round == 3:
            raise KeyboardInterrupt
        return trained

    run_in(tmp_path / "a", ScriptedTransport(scenario, GONE), AtRandom(scenario), remedy="drop")
    with pytest.raises(KeyboardInterrupt):
        transport = ScriptedTransport(scenario, GONE, stop)
        run_in(tmp_path / "b", transport, AtRandom(scenario), remedy="drop")
    run_in(tmp_path / "b", ScriptedTransport(scenario, GONE, polls=3), AtRandom(scenario))
    for name in ("online.jsonl", "config.toml", "checkpoint.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assignments = [
        [record.assignment for record in load_decision_records(tmp_path / name / "decisions.jsonl")]
        for name in "ab"
    ]
    assert assignments[0] == assignments[1]


@pytest.fixture
def installed(monkeypatch):
    """As if a package had an entry point for it."""
    point = EntryPoint("at-random", f"{__name__}:AtRandom", registry.ENTRY_POINTS)
    points = EntryPoints([point])
    monkeypatch.setattr(plug_ins, "entry_points", lambda *, group: points.select(group=group))


def test_a_deployment_by_name(tmp_path, installed, monkeypatch):
    pytest.importorskip("torch")
    from stagewise.deploy.in_process import InProcess

    train = InProcess.train_round

    def interrupted(self, order):
        if order.round == 1:
            raise KeyboardInterrupt
        return train(self, order)

    out = tmp_path / "run"
    quick = ["--design", "in-process", "--dataset", "digits", "--rounds", "3"]
    options = ["--policy", "at-random", "--remedy", "drop", *quick]
    with monkeypatch.context() as patch:
        patch.setattr(InProcess, "train_round", interrupted)
        assert main(["deploy", "up", "--out", str(out), *options]) == 130
    assert main(["deploy", "up", "--out", str(out)]) == 0
    found = read_status(out)
    assert (found.phase, found.complete, found.adds_up) == ("finished", 3, True)
    names = [str(out / name) for name in ("scenario.json", "decisions.jsonl", "online.jsonl")]
    assert main(["check", *names[:2], "--online", names[2]]) == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--remedy", "lend"], "remedy = 'lend': needs a policy that follows a plan"),
        (["--replan-every", "2"], "replanning: needs a policy that follows a plan"),
    ],
)
def test_what_it_cannot_have_is_refused_in_one_line(tmp_path, installed, capsys, options, error):
    pytest.importorskip("torch")
    run = ["deploy", "up", "--out", str(tmp_path / "run"), "--design", "in-process"]
    assert main([*run, "--dataset", "digits", "--policy", "at-random", *options]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"{error}; 'at-random' does not" in last
    assert not (tmp_path / "run").exists()
