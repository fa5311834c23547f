"""`stagewise.simulate`: what a run records, under every kind of policy and circumstance."""

import json
import shutil
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import stagewise
from helpers import wait_until
from small_runs import TASK, contents, small_run, small_scenario
from stagewise.checker import check
from stagewise.datasets import load_dataset
from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.policies import replanned
from stagewise.policies.plan_policy import PlanPolicy
from stagewise.policies.policy import Policy
from stagewise.policies.registry import make_policy
from stagewise.runs.config import Participation, Replanning
from stagewise.runs.run import load_run
from stagewise.simulator.default_scenario import default_scenario
from stagewise.simulator.start import resume, simulate
from stagewise.training import Trainer
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits

CONTRACT = [
    *("round", "accuracy", "loss", "objective", "delay_s", "energy_j", "clients", "feasible"),
    *("decision_ms", "wall_s"),
]


class Nearest(Policy):
    """Everybody who is online, at the edge with the best channel, first come first served."""

    def __init__(self):
        self.told = 0

    def decide(self, round_):
        links, left = round_.scenario.links, round_.scenario.edges.capacity.copy()
        edge_of = np.full(len(round_.scenario.clients), -1)
        # One with a memory: after every other round that it was told of, the first client rests.
        for link in np.argsort(-links.gain):
            client, edge = links.client[link], links.edge[link]
            rests = client == 0 and self.told % 2 == 1
            if round_.usable[link] and edge_of[client] < 0 and left[edge] > 0 and not rests:
                edge_of[client] = edge
                left[edge] -= 1
        return Answer(edge_of)

    def observe(self, outcome):
        self.told += 1

    def state(self):
        return {"told": self.told}

    def restore(self, state):
        self.told = state["told"]


def nearest(scenario, *, seed, seconds):
    return Nearest()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_run(tmp_path_factory.mktemp("simulate") / "run")


def test_the_folder_keeps_the_contract(run):
    names = {path.name for path in run.path.iterdir()}
    assert names == {
        *("config.toml", "scenario.json", "plan.json", "decisions.jsonl", "rounds.jsonl"),
        *("checkpoint.safetensors", "online.jsonl", "plans", "checkpoints", "chain.jsonl"),
    }
    lines = [json.loads(line) for line in (run.path / "rounds.jsonl").read_text().splitlines()]
    assert [list(line) for line in lines] == [CONTRACT] * 8
    assert [line["round"] for line in lines] == list(range(8))
    rounds = stagewise.load_rounds(run.path / "online.jsonl", run.scenario)
    assert check(run.scenario, run.decisions, rounds) == []
    assert run.scenario.sha256 == run.config.scenario_sha256


def test_the_run_object(run):
    pytest.importorskip("pandas")
    assert list(run.rounds.columns) == CONTRACT
    assert len(run.rounds) == 8
    assert run.rounds["accuracy"].iloc[-1] == run.accuracy > 0.3
    assert [decision.round for decision in run.decisions] == list(range(8))
    assert set(run.weights) == {"1.weight", "1.bias", "3.weight", "3.bias"}
    assert "8 of 8 rounds" in repr(run)
    assert run.finished
    assert load_run(run.path).rounds.equals(run.rounds)


def test_plot(run):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = run.plot()
    assert axes.get_ylabel() == "test accuracy"
    assert run.plot(axes) is axes
    assert len(axes.lines) == 2
    matplotlib.pyplot.close(axes.figure)


def test_without_out_nothing_is_written_and_results_are_the_same(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    in_memory = small_run()
    assert list(tmp_path.iterdir()) == []
    assert in_memory.path is None
    for name, array in run.weights.items():
        np.testing.assert_array_equal(in_memory.weights[name], array)
    assert [d.assignment for d in in_memory.decisions] == [d.assignment for d in run.decisions]
    assert len(in_memory.plan_ms) == len(run.plan_ms) == 3


def test_workers_change_nothing(run, tmp_path):
    small_run(tmp_path / "two", workers=2)
    assert contents(tmp_path / "two") == contents(run.path)


def test_evaluate_every(tmp_path):
    run = small_run(tmp_path / "run", rounds=5, evaluate_every=2)
    assert [record.accuracy is not None for record in run.records] == [
        False,
        True,
        False,
        True,
        True,
    ]
    assert small_run(rounds=5).records[3].accuracy == run.records[3].accuracy
    assert run.accuracy == run.records[4].accuracy


def test_the_pool_by_its_short_name():
    run = small_run(policy="pool", rounds=2, replanning=Replanning())
    assert run.config.policy == "pool-flexible"
    assert run.decisions[0].method == "pool-flexible"


@pytest.mark.parametrize("policy", [nearest, Nearest()], ids=["factory", "object"])
def test_a_policy_of_ones_own(policy, tmp_path):
    run = small_run(policy=policy, rounds=3, replanning=Replanning())
    assert run.config.policy.lower() == "nearest"
    for decision, round_ in zip(run.decisions, run.online, strict=True):
        assert decision.method == run.config.policy
        assert set(decision.assignment) <= set(round_.online_ids)


def test_a_policy_that_a_factory_gives_a_name_keeps_it():
    def make(scenario, *, seed, seconds):
        policy = Nearest()
        policy.name = "the nearest"
        return policy

    run = small_run(policy=make, rounds=1, replanning=Replanning())
    assert run.config.policy == run.decisions[0].method == "the nearest"


def test_diversity_lets_more_clients_train_also_after_a_resume(tmp_path, monkeypatch):
    scenario = small_scenario()
    always = replace(scenario.clients, online_probability=np.ones(12), history=None)
    always_there = replace(scenario, clients=always, file_sha256=None)

    def trained(run):
        return len({client for decision in run.decisions for client in decision.assignment})

    options = {"dataset": "digits", "model": "mlp", "policy": "pool", "rounds": 6, "seed": 1}
    plain = simulate(always_there, **options)
    diverse = simulate(always_there, **options, diversity=2.0, out=tmp_path / "whole")
    assert trained(diverse) > trained(plain)

    with interrupted_in(PlanPolicy, 3, monkeypatch):
        simulate(always_there, **options, diversity=2.0, out=tmp_path / "cut")
    resume(tmp_path / "cut")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    with pytest.raises(StagewiseError, match="diversity = 2: needs a policy that takes surcharges"):
        simulate(always_there, **(options | {"policy": "fedcs"}), diversity=2.0)


@contextmanager
def interrupted_in(kind, index, monkeypatch):
    """An interruption when a policy of this kind is asked about round `index`."""

    def decide(policy, round_):
        if round_.index == index:
            raise KeyboardInterrupt
        return plain(policy, round_)

    plain = kind.decide
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(kind, "decide", decide)
        yield


def test_a_policy_with_a_memory_is_where_it_was_after_a_resume(tmp_path, monkeypatch):
    options = {"policy": nearest, "rounds": 7, "replanning": Replanning()}
    small_run(tmp_path / "whole", **options)
    with interrupted_in(Nearest, 4, monkeypatch):
        small_run(tmp_path / "run", **options)
    with pytest.raises(StagewiseError, match="policy: must be given again, as policy 'nearest'"):
        resume(tmp_path / "run")
    resume(tmp_path / "run", policy=nearest)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


class Recalling(PlanPolicy):
    """Lets the first client of the round before rest, as far as it has been told who that was."""

    resting = -1

    def decide(self, round_):
        edge_of = super().decide(round_).edge_of.copy()
        if self.resting >= 0:
            edge_of[self.resting] = -1
        return Answer(edge_of)

    def observe(self, outcome):
        served = outcome.clients.client
        self.resting = int(served[0]) if len(served) else -1

    def state(self):
        return {"resting": self.resting}

    def restore(self, state):
        self.resting = state["resting"]


def recalling(scenario, *, seed, seconds):
    plan = stagewise.plan(scenario, method="local-search", seed=seed)
    return Recalling(plan, "repair", "strict", seconds)


@pytest.mark.parametrize("remedy", [None, "drop"])
def test_what_a_policy_was_told_it_knows_after_a_resume_and_a_new_plan(
    remedy, tmp_path, monkeypatch
):
    """New plans come round after round; the interruption comes after the fourth."""
    options = {"rounds": 6, "replanning": Replanning(every=1), "remedy": remedy}
    whole = small_run(tmp_path / "whole", policy=recalling, **options)
    unlike = small_run(policy="stagewise-strict", **options)
    assert [d.assignment for d in whole.decisions] != [d.assignment for d in unlike.decisions]
    with interrupted_in(Recalling, 4, monkeypatch):
        small_run(tmp_path / "run", policy=recalling, **options)
    resume(tmp_path / "run", policy=recalling)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_plans_take_effect_in_the_round_that_was_said(run, monkeypatch):
    """Ordered in rounds 2 and 5, in force two rounds later, even if they take until then."""
    in_force, due = [], iter([4, 7])

    def watched(policy, round_):
        in_force.append(policy.plan.edge_of)
        return decide(policy, round_)

    def slow(*arguments, **options):
        before = next(due)
        wait_until(lambda: len(in_force) == before)
        return make(*arguments, **options)

    decide, make = PlanPolicy.decide, replanned.make_plan
    monkeypatch.setattr(PlanPolicy, "decide", watched)
    monkeypatch.setattr(replanned, "make_plan", slow)
    again = small_run()
    changes = [g for g in range(1, 8) if in_force[g] is not in_force[g - 1]]
    assert changes == [4, 7]
    assert [d.assignment for d in again.decisions] == [d.assignment for d in run.decisions]


def test_plans_are_made_with_what_was_learned(tmp_path):
    """A client that never comes is planned for at first, and no longer once that is known."""
    scenario = small_scenario()
    first = make_policy("stagewise-strict", scenario, 3).plan
    missing = int(np.flatnonzero(first.edge_of >= 0)[0])
    online = np.ones(12, dtype=np.bool_)
    online[missing] = False
    rounds = [Round(scenario, online)] * 40
    run = small_run(
        tmp_path / "run", rounds=40, participation=rounds, replanning=Replanning(every=38)
    )
    later = json.loads((tmp_path / "run/plans/round-000037.json").read_text())
    name = scenario.clients.ids[missing]
    assert name in first.assignment
    assert name not in later["assignment"]
    assert run.config.participation.model == "own"


def test_nobody_online_leaves_the_model_as_it_is():
    scenario = small_scenario()
    nobody = Round(scenario, np.zeros(12, dtype=np.bool_))
    rounds = [*bernoulli(scenario, 2, 1), nobody, nobody]
    run = small_run(rounds=4, participation=rounds, replanning=Replanning())
    assert [record.clients for record in run.records][2:] == [0, 0]
    assert not run.records[2].feasible
    assert run.records[1].accuracy == run.records[3].accuracy


@pytest.mark.parametrize("policy", ["stagewise-strict", "fedcs"])
@pytest.mark.parametrize("remedy", [None, "drop", "reweight"])
def test_infeasible_rounds_train_all_the_same(policy, remedy, monkeypatch):
    """Under limits that no edge can keep."""
    given = []

    def watched(trainer, weights, groups, round_index, edge_weights=None, **options):
        given.append((groups, edge_weights))
        return train(trainer, weights, groups, round_index, edge_weights=edge_weights, **options)

    train = Trainer.train_round
    monkeypatch.setattr(Trainer, "train_round", watched)
    scenario = stagewise.generate.numeric(
        12, 2, 0, task=TASK, limits=Limits(kld_max=0.001, data_min=100)
    )
    run = stagewise.simulate(scenario, "digits", policy, 4, model="mlp", remedy=remedy)
    assert not any(record.feasible for record in run.records)
    assert sum(record.clients for record in run.records) == sum(
        len(group) for groups, _ in given for group in groups
    )
    if remedy == "reweight":
        for (groups, shares), decision in zip(given, run.decisions, strict=True):
            assert shares is not None
            for group, share, edge in zip(groups, shares, decision.edges, strict=True):
                assert len(group) == edge.clients
                assert 0 < share < edge.data
    else:
        assert all(shares is None for _, shares in given)
    if remedy == "drop":
        assert all(record.clients == 0 for record in run.records)
    else:
        assert all(record.clients > 0 for record in run.records)


@pytest.mark.parametrize("remedy", ["lend", None])
def test_what_only_a_policy_with_a_plan_can_do(remedy, tmp_path):
    asked = {"remedy": "lend"} if remedy else {"replanning": Replanning(every=2)}
    options = {"replanning": Replanning(), **asked}
    with pytest.raises(StagewiseError, match="needs a policy that follows a plan; 'fedcs' does"):
        small_run(tmp_path / "run", policy="fedcs", **options)
    assert list(tmp_path.iterdir()) == []


def test_participation_and_fluctuation(tmp_path):
    participation = Participation(model="markov", mean_session=4, fluctuate=True)
    run = small_run(tmp_path / "run", rounds=3, participation=participation)
    assert run.online[0].gain is not None
    rounds = stagewise.load_rounds(run.path / "online.jsonl", run.scenario)
    assert check(run.scenario, run.decisions, rounds) == []


@pytest.mark.parametrize("existing", ["run", "file", "other"])
def test_nothing_is_overwritten(run, tmp_path, existing):
    out = run.path
    if existing != "run":
        out = tmp_path / existing
        if existing == "other":
            out.mkdir()
            (out / "notes.txt").write_text("mine")
        else:
            out.write_text("mine")
    before = {path: path.read_bytes() for path in [out, *out.rglob("*")] if path.is_file()}
    with pytest.raises(StagewiseError, match=r"stagewise resume|must be a new or an empty folder"):
        small_run(out)
    after = {path: path.read_bytes() for path in [out, *out.rglob("*")] if path.is_file()}
    assert after == before


def test_an_empty_folder_will_do(tmp_path):
    out = tmp_path / "new" / "run"
    out.mkdir(parents=True)
    assert small_run(out, rounds=1).finished


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StagewiseError, match=r"file: must be a folder"):
        small_run(tmp_path / "file" / "run")
    with pytest.raises(StagewiseError, match=r"/proc/runs/a: cannot be written"):
        small_run("/proc/runs/a")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"dataset": "nothing"}, "dataset = 'nothing': must be one of"),
        ({"model": "nothing"}, "model = 'nothing': must be one of"),
        ({"policy": "nothing"}, "method = 'nothing': must be one of"),
        ({"policy": 3}, "policy = 3: must be a name, a policy, or a function"),
        ({"rounds": 0}, "rounds = 0: must be at least 1"),
        ({"seed": -1}, "seed = -1: must be at least 0"),
        ({"learning_rate": 0}, "learning_rate = 0"),
        ({"stop_at_accuracy": 2}, "stop_at_accuracy = 2"),
        ({"dtype": "float16"}, "dtype"),
        ({"workers": 0}, "workers = 0: must be at least 1"),
        ({"participation": []}, "participation: 0 rounds: must be at least 8"),
        ({"loggers": ["paper"]}, "logger = 'paper': must be one of tensorboard, mlflow"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(options, complaint, tmp_path):
    with pytest.raises(StagewiseError) as caught:
        small_run(tmp_path / "run", **options)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_scenario_with_other_labels_than_the_data(tmp_path):
    with pytest.raises(StagewiseError, match="label_counts"):
        stagewise.simulate(
            stagewise.generate.numeric(5, 1, task="cifar100"), "digits", out=tmp_path / "run"
        )
    assert list(tmp_path.iterdir()) == []


def test_a_run_does_not_go_on_with_other_data(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("rounds = 8", "rounds = 9"))
    with pytest.raises(
        StagewiseError, match=r"online\.jsonl: has 8 rounds: must have 9, as config"
    ):
        resume(tmp_path / "run")
    online = tmp_path / "run" / "online.jsonl"
    online.write_text(online.read_text() + "[]\n")
    fingerprint = load_dataset("digits").fingerprint
    config.write_text(config.read_text().replace(fingerprint, "0" * 64))
    with pytest.raises(StagewiseError, match="the data set 'digits' must be the one the run began"):
        resume(tmp_path / "run")
    scenario = tmp_path / "run" / "scenario.json"
    scenario.write_text(scenario.read_text() + "\n")
    with pytest.raises(StagewiseError, match=r"scenario\.json: must be as it was"):
        resume(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "samples", "classes", "shape"),
    [
        ("digits", 1_442, 10, (1, 8, 8)),
        ("mnist5k", 4_000, 10, (1, 28, 28)),
        ("mnist", 60_000, 10, (1, 28, 28)),
        ("own", 9_600, 15, (3, 64, 64)),
        ("two", 500, 2, (1, 4, 4)),
    ],
)
def test_the_default_scenario_is_the_papers_in_proportion(name, samples, classes, shape):
    scenario = default_scenario(name, samples, classes, shape, 21_840, seed=1)
    paper = stagewise.generate.numeric(93, 4, 1)
    assert (len(scenario.clients), len(scenario.edges)) == (93, 4)
    assert scenario.labels == classes
    assert 0.8 * samples < scenario.clients.data.sum() <= 1.1 * samples
    share = samples / 60_000
    assert scenario.limits.data_min == pytest.approx(2500 * share, abs=0.5)
    ours, theirs = scenario.clients, paper.clients
    pixels = np.prod(shape) / 784
    np.testing.assert_allclose(
        ours.cycles_per_sample * ours.data,
        theirs.cycles_per_sample * theirs.data * pixels,
        rtol=0.15 if samples > 2_000 else 0.6,
    )
    if name in ("digits", "mnist5k"):
        decisions = stagewise.solve(scenario, bernoulli(scenario, 8, 1), method="local-search")
        assert sum(decision.feasible for decision in decisions) >= 7


def test_an_exception_of_a_plan_under_way_leaves_the_old_one(monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("no plan today")

    monkeypatch.setattr(replanned, "make_plan", fail)
    run = small_run()
    assert run.finished
    assert len(run.plan_ms) == 1
