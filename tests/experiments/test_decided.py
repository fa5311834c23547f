"""Rounds decided once: outputs are those of cells that share nothing, whatever happened to the files."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import experiment_cases as cases
import msgspec
import pytest

import stagewise
import stagewise_experiments
from stagewise.policies import registry
from stagewise_experiments.code_version import deciding_digest_of, deciding_version
from stagewise_experiments.measures import decided, run_cell
from stagewise_experiments.measures.scenarios import make_rounds
from stagewise_experiments.runner import run_experiments
from stagewise_experiments.setting import Setting, make_setting

pytest.importorskip("torch")
pytest.importorskip("sklearn")

SMALL = {"clients": 12, "edges": 2, "data_min": 2000, "kld_max": 1.0}
TIMINGS = ("decision_ms", "plan_ms")
KINDS = {
    "no plan": {"policy": "fedcs"},
    "a plan": {"policy": "stagewise-flexible"},
    "plans made again": {
        "policy": "stagewise-strict",
        "replan_every": 2,
        "participation": {"fluctuate": True},
    },
    "weighed": {"policy": "fedcs+label-weights"},
    "diverse": {"policy": "pool-flexible", "diversity": 0.5},
}


def cell(measure: str = "training", **fields) -> Setting:
    given = {"measure": measure, "policy": "fedcs", "seed": 2, "rounds": 5, "scenario": SMALL}
    return make_setting({**given, "dataset": "digits", **fields}, "test")


def without_times(outputs):
    """As text, with the number of plans and whether there is a time in place of times."""
    rounds = [{k: v for k, v in got.items() if k not in TIMINGS} for got in outputs["rounds"]]
    plans = outputs["plan_ms"]
    plans = len(plans) if isinstance(plans, list) else plans is None
    return json.dumps({**outputs, "rounds": rounds, "plan_ms": plans})


@pytest.fixture
def asked(monkeypatch) -> list[int]:
    """The rounds in which a policy of a cell is asked, in order, and -1 wherever one is made."""
    asked: list[int] = []
    make = decided.make_policy

    def counting(setting, scenario):
        policy = make(setting, scenario)
        answer = policy.decide

        def decide(round_):
            asked.append(round_.index)
            return answer(round_)

        policy.decide = decide
        asked.append(-1)
        return policy

    monkeypatch.setattr(decided, "make_policy", counting)
    return asked


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_the_same_with_and_without(tmp_path, asked, kind):
    setting = cell(**KINDS[kind])
    alone = run_cell(setting)
    assert asked == [-1, 0, 1, 2, 3, 4]
    first = run_cell(setting, "cpu", tmp_path)
    assert len(asked) == 12
    again = run_cell(setting, "cpu", tmp_path)
    assert len(asked) == 12  # nothing is decided, no plan made
    assert without_times(alone) == without_times(first)
    assert json.dumps(first) == json.dumps(again)  # the times are those of when it was decided


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_that_are_missing_are_added(tmp_path, asked, kind):
    """By a policy that remembers nothing these alone; any other goes through those before again."""
    run_cell(cell(**KINDS[kind], rounds=2), "cpu", tmp_path)
    before = len(asked)
    longer = run_cell(cell(**KINDS[kind]), "cpu", tmp_path)
    state = kind in ("plans made again", "diverse")
    assert asked[before:] == ([-1, 0, 1, 2, 3, 4] if state else [-1, 2, 3, 4])
    assert without_times(longer) == without_times(run_cell(cell(**KINDS[kind])))
    before = len(asked)
    shorter = run_cell(cell(**KINDS[kind], rounds=3), "cpu", tmp_path)
    assert len(asked) == before
    assert without_times(shorter) == without_times(run_cell(cell(**KINDS[kind], rounds=3)))


def test_two_that_take_turns_agree(tmp_path, monkeypatch):
    """Each finds rounds that the other has added since."""
    monkeypatch.setattr(decided, "seconds_ahead", lambda policy: 0.0)
    setting = cell(**KINDS["plans made again"])
    both = [decided.DecidedRounds(setting, *make_rounds(setting), tmp_path) for _ in range(2)]
    for index in range(5):
        answers = [one.answer(index) for one in (both if index % 2 else both[::-1])]
        assert answers[0].edge_of.tolist() == answers[1].edge_of.tolist()
    assert both[0].plan_ms(5) == both[1].plan_ms(5)
    assert [both[0].decision_ms(g) for g in range(5)] == [both[1].decision_ms(g) for g in range(5)]
    for one in both:
        one.close()
    expected = run_cell(setting)
    assert without_times(run_cell(setting, "cpu", tmp_path)) == without_times(expected)


def test_cells_that_differ_in_training_alone_share_everything_else(tmp_path, asked):
    settings = [
        cell(policy="stagewise-flexible", **other)
        for other in ({}, {"training_seed": 7}, {"training_seed": 2}, {"learning_rate": 0.3})
    ]
    outputs = [run_cell(setting, "cpu", tmp_path) for setting in settings]
    assert asked == [-1, 0, 1, 2, 3, 4]
    assert len({json.dumps([got["objective"] for got in one["rounds"]]) for one in outputs}) == 1
    accuracies = [[got["accuracy"] for got in one["rounds"]] for one in outputs]
    assert accuracies[0] == accuracies[2]
    assert accuracies[1] != accuracies[0] != accuracies[3]
    for setting, one in zip(settings, outputs, strict=True):
        assert without_times(run_cell(setting)) == without_times(one)


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 3},
        {"policy": "client-sel-only"},
        {"scenario": {**SMALL, "p_min": 0.6}},
        {"participation": {"model": "markov"}},
        {"participation": {"fluctuate": True}},
    ],
)
def test_cells_that_differ_in_more_share_nothing(tmp_path, asked, other):
    run_cell(cell(), "cpu", tmp_path)
    outputs = run_cell(cell(**other), "cpu", tmp_path)
    assert asked == [-1, 0, 1, 2, 3, 4] * 2
    assert without_times(outputs) == without_times(run_cell(cell(**other)))


def test_no_more_rounds_are_decided_than_trained(tmp_path, asked):
    aimed = cell(rounds=30, target_accuracy=0.3)
    outputs = run_cell(aimed, "cpu", tmp_path)
    assert 3 <= len(outputs["rounds"]) < 30
    assert asked == [-1, *range(len(outputs["rounds"]))]


def test_rounds_are_decided_ahead_for_as_long_as_the_plan_took(tmp_path, asked, monkeypatch):
    """Nobody else is to make the plan, unless decisions take longer than that."""
    aimed = cell(policy="stagewise-flexible", rounds=30, target_accuracy=0.3)
    monkeypatch.setattr(decided, "seconds_ahead", lambda policy: 1e9)
    outputs = run_cell(aimed, "cpu", tmp_path)
    assert len(outputs["rounds"]) < 30
    assert asked == [-1, *range(30)]
    monkeypatch.setattr(decided, "seconds_ahead", lambda policy: 0.0)
    without = run_cell(aimed)
    assert len(asked) == 32 + len(outputs["rounds"])
    assert without_times(without) == without_times(outputs)


def test_decisions_without_training_are_the_same_ones(tmp_path, asked):
    """A data set that is none of the paper's has one scenario, whatever is measured."""
    trained = run_cell(cell(), "cpu", tmp_path)
    outputs = run_cell(cell("decisions", rounds=6), "cpu", tmp_path)
    for name in ("objective", "clients"):
        assert [got[name] for got in outputs["rounds"][:5]] == [
            got[name] for got in trained["rounds"]
        ]


@pytest.mark.parametrize(("measure", "shared"), [("decisions", False), ("training", True)])
def test_times_that_are_results_are_those_of_the_machine(
    tmp_path, asked, monkeypatch, measure, shared
):
    first = run_cell(cell(measure), "cpu", tmp_path)
    here = decided.this_machine()
    other = msgspec.structs.replace(here, cpu="a slower one")
    monkeypatch.setattr(decided, "this_machine", lambda: other)
    there = run_cell(cell(measure), "cpu", tmp_path)
    assert asked == [-1, 0, 1, 2, 3, 4] * (1 if shared else 2)
    assert without_times(first) == without_times(there)
    monkeypatch.setattr(decided, "this_machine", lambda: here)
    assert json.dumps(run_cell(cell(measure), "cpu", tmp_path)) == json.dumps(first)


@pytest.mark.parametrize(
    ("measure", "seconds", "written"),
    [("decisions", 0.0, [20]), ("training", 1e9, [1, 20]), ("training", 0.0, [*range(1, 21)])],
)
def test_the_file_is_written_when_what_was_asked_for_is_there(
    tmp_path, monkeypatch, measure, seconds, written
):
    """A write for every round would be of all rounds before it, too."""
    counts, write = [], decided.write_bytes

    def counting(path, content):
        counts.append(len(json.loads(content)["rounds"]))
        write(path, content)

    monkeypatch.setattr(decided, "write_bytes", counting)
    monkeypatch.setattr(decided, "seconds_ahead", lambda policy: seconds)
    run_cell(cell(measure, rounds=20), "cpu", tmp_path)
    assert counts == written


def damaged(content: bytes, how: str) -> bytes:
    record = json.loads(content)
    if how == "empty":
        return b""
    if how == "cut":
        return content[: len(content) // 2]
    if how == "no text":
        return b"\xff\xfe" + content
    if how == "another format":
        record["format"] = "stagewise-decided/2"
    if how == "other inputs":
        record["inputs"]["seed"] += 1
    if how == "another round":
        record["rounds"][0]["round"] = record["rounds"][1]["round"]
    if how == "too few clients":
        record["rounds"][0]["edge_of"].pop()
    if how == "no such edge":
        record["rounds"][0]["edge_of"][0] = 2**70
    if how == "all serve":
        record["rounds"][0]["edge_of"] = [1] * SMALL["clients"]
    return json.dumps(record).encode()


@pytest.mark.parametrize(
    "how",
    [
        *("empty", "cut", "no text", "another format", "other inputs"),
        *("another round", "too few clients", "no such edge", "all serve"),
    ],
)
def test_what_is_damaged_is_decided_again(tmp_path, asked, how):
    expected = run_cell(cell(), "cpu", tmp_path)
    [path] = tmp_path.glob("*.json")
    path.write_bytes(damaged(path.read_bytes(), how))
    outputs = run_cell(cell(), "cpu", tmp_path)
    assert asked == [-1, 0, 1, 2, 3, 4] * 2
    assert without_times(outputs) == without_times(expected)
    assert json.dumps(run_cell(cell(), "cpu", tmp_path)) == json.dumps(outputs)
    assert len(asked) == 12


def test_a_later_round_that_does_not_fit_costs_the_rest_alone(tmp_path, asked):
    expected = run_cell(cell(), "cpu", tmp_path)
    [path] = tmp_path.glob("*.json")
    record = json.loads(path.read_bytes())
    record["rounds"][3]["edge_of"] = []
    path.write_text(json.dumps(record))
    outputs = run_cell(cell(), "cpu", tmp_path)
    assert asked[6:] == [-1, 3, 4]
    assert without_times(outputs) == without_times(expected)


def test_a_folder_that_is_not_there_or_takes_nothing_is_done_without(tmp_path, monkeypatch):
    expected = without_times(run_cell(cell()))
    assert without_times(run_cell(cell(), "cpu", tmp_path / "elsewhere")) == expected
    assert list(tmp_path.iterdir()) == []

    def full(path, content):
        raise stagewise.StagewiseError(f"{path}: cannot be written: no space left on device")

    monkeypatch.setattr(decided, "write_bytes", full)
    assert without_times(run_cell(cell(), "cpu", tmp_path)) == expected
    assert list(tmp_path.glob("*.json")) == []


@pytest.fixture
def learner(monkeypatch) -> str:
    """The name of a policy that learns from what training gave."""
    monkeypatch.setitem(registry._BUILT_IN, "learner", "experiment_cases:learner")
    return "learner"


def test_policies_that_use_feedback_decide_while_training(tmp_path, learner, asked):
    setting = cell(policy=learner)
    scenario, rounds = make_rounds(setting)
    run = stagewise.simulate(scenario, "digits", learner, 5, 2, participation=rounds)
    expected = [record.objective for record in run.records]
    for count in (1, 2):
        outputs = run_cell(setting, "cpu", tmp_path)
        assert [got["objective"] for got in outputs["rounds"]] == expected
        assert asked.count(-1) == count
    other = run_cell(cell(policy=learner, training_seed=9), "cpu", tmp_path)
    assert [got["objective"] for got in other["rounds"]] != expected
    assert list(tmp_path.glob("*.json")) == []


def test_what_they_decide_without_training_is_not_trained_by(tmp_path, learner):
    expected = run_cell(cell(policy=learner))
    untrained = run_cell(cell("decisions", policy=learner), "cpu", tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 1
    outputs = run_cell(cell(policy=learner), "cpu", tmp_path)
    assert without_times(outputs) == without_times(expected)
    found, other = ([got["objective"] for got in one["rounds"]] for one in (outputs, untrained))
    assert found != other


def test_training_that_diverges_counts_the_plans_it_had(tmp_path):
    wild = cell(**KINDS["a plan"], learning_rate=1e30)
    for folder in (None, tmp_path, tmp_path):
        outputs = run_cell(wild, "cpu", folder)
        assert outputs["rounds"] == []
        assert len(outputs["plan_ms"]) == 1


def test_the_version_follows_what_decides(tmp_path):
    import shutil

    packages = [Path(module.__file__).parent for module in (stagewise, stagewise_experiments)]
    copies = [tmp_path / package.name for package in packages]
    for package, copy in zip(packages, copies, strict=True):
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert deciding_digest_of(*copies) == deciding_version()
    decides = ["plan_b/ccu.py", "world/rounds.py", "loop.py", "policies/replanned.py"]
    trains = ["training/kernels.py", "simulator/carrier.py", "datasets/idx.py", "runs/session.py"]
    measures = ["measures/training.py", "runner.py"]
    for package, name, differs in (
        *(("stagewise", name, True) for name in decides),
        *(("stagewise", name, False) for name in trains),
        *(("stagewise_experiments", name, False) for name in measures),
        ("stagewise_experiments", "measures/decided.py", True),
    ):
        path = tmp_path / package / name
        before = path.read_bytes()
        path.write_bytes(before + b"\n# another\n")
        assert (deciding_digest_of(*copies) != deciding_version()) is differs, name
        path.write_bytes(before)


def test_an_experiment_keeps_its_decisions(tmp_path, asked):
    def run() -> list:
        workers = cases.ThreadWorkers()
        try:
            present = lambda result, where: None  # noqa: E731
            assert (
                run_experiments([cases.small()], "quick", tmp_path, workers, present=present) == 0
            )
        finally:
            workers.stop()
        result = msgspec.json.decode((tmp_path / "small" / "result.json").read_bytes())
        return [(one["key"], one["outputs"]) for one in result["cells"]]

    first = run()
    assert asked.count(-1) == 8
    assert len(list((tmp_path / "decisions").glob("*.json"))) == 8
    for path in (tmp_path / "cells").iterdir():
        path.unlink()
    assert run() == first  # the times, too
    assert asked.count(-1) == 8


PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from stagewise.policies.plan_policy import PlanPolicy
from stagewise_experiments.measures import decided, run_cell
from stagewise_experiments.setting import make_setting

folder, log, last, wait = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
make = decided.make_policy


def logging(setting, scenario):
    policy = make(setting, scenario)
    answer = policy.decide

    def decide(round_):
        if round_.index == last:
            os.kill(os.getpid(), signal.SIGKILL)
        with log.open("a") as file:
            file.write(f"{round_.index}\\n")
        return answer(round_)

    policy.decide = decide
    return policy


decided.make_policy = logging
decided.seconds_ahead = lambda policy: float(sys.argv[6])
if wait:
    print("ready", flush=True)
    sys.stdin.readline()
setting = make_setting(json.loads(sys.argv[5]), "test")
print(json.dumps(run_cell(setting, "cpu", folder)))
"""


def started(
    setting: Setting, folder: Path, log: Path, last: int = -1, wait: str = "", ahead: float = 0.0
):
    """A process that runs the cell, and is killed in round `last` before it is decided."""
    fields = json.dumps(msgspec.to_builtins(setting))
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(log), str(last), wait, fields, str(ahead)],
        env=os.environ | {"PYTHONPATH": cases.import_path()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.processes
@pytest.mark.parametrize(
    ("ahead", "decided_again"), [(0.0, ["3", "4"]), (1e9, ["1", "2", "3", "4"])]
)
def test_what_a_killed_process_had_written_is_kept(tmp_path, ahead, decided_again):
    """Round by round that is everything; ahead of training, the rounds that were asked for."""
    folder, log = tmp_path / "decisions", tmp_path / "log"
    folder.mkdir()
    setting = cell(policy="stagewise-flexible")
    killed = started(setting, folder, log, last=3, ahead=ahead)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert log.read_text().split() == ["0", "1", "2"]
    later = started(setting, folder, log)
    output = later.communicate(timeout=120)[0]
    assert log.read_text().split() == ["0", "1", "2", *decided_again]
    assert without_times(json.loads(output)) == without_times(run_cell(setting))


@pytest.mark.processes
def test_processes_that_need_the_same_at_the_same_time_decide_it_once(tmp_path):
    folder, log = tmp_path / "decisions", tmp_path / "log"
    folder.mkdir()
    setting = cell(policy="stagewise-flexible", rounds=12)
    processes = [started(setting, folder, log, wait="wait") for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=180)[0] for process in processes]
    assert outputs[0] == outputs[1] == outputs[2]  # the times, too
    assert sorted(map(int, log.read_text().split())) == list(range(12))
    assert without_times(json.loads(outputs[0])) == without_times(run_cell(setting))
