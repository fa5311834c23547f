"""Checkpoints that are kept, damaged, returned to and rolled back to; records that are chained."""

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("torch")

from small_runs import contents, small_run, stopped_after
from stagewise.cli.main import main
from stagewise.errors import StagewiseError
from stagewise.runs import checkpoint_files
from stagewise.runs.checkpoint_files import CHECKPOINT, CheckpointFiles
from stagewise.runs.collapse import CollapseWatch
from stagewise.runs.config import Replanning
from stagewise.runs.directory import RunDirectory
from stagewise.runs.records import RoundRecord
from stagewise.runs.run import load_run
from stagewise.simulator import carrier
from stagewise.simulator.start import resume

KEPT = ["round-000005.safetensors", "round-000006.safetensors"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    small_run(folder)
    return folder


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def flip(path, place=-5):
    content = bytearray(path.read_bytes())
    content[place] ^= 64
    path.write_bytes(content)


def kept(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_the_last_three_checkpoints_are_kept(whole, tmp_path):
    assert kept(whole) == KEPT
    small_run(tmp_path / "one", keep_checkpoints=1)
    assert not (tmp_path / "one" / "checkpoints").exists()
    # With the last that was evaluated, to return to.
    small_run(tmp_path / "few", rounds=5, keep_checkpoints=1, evaluate_every=3)
    assert not (tmp_path / "few" / "checkpoints").exists()  # the last round is evaluated
    with pytest.raises(StagewiseError, match="keep_checkpoints = 0: must be"):
        small_run(keep_checkpoints=0)


@pytest.mark.fault(
    "One bit of a run's checkpoint is flipped", "it is refused by name, and the one before is used"
)
@pytest.mark.parametrize("place", [-5, 9, 60])
def test_a_flipped_bit_is_refused_by_name_and_the_one_before_is_used(whole, run, capsys, place):
    """In a weight, and in the header."""
    flip(run / CHECKPOINT, place)
    if place == -5:
        with pytest.raises(StagewiseError, match=r"checkpoint\.safetensors: damaged: its SHA-256"):
            load_run(run)
    assert resume(run).finished
    assert f"{run / CHECKPOINT}: damaged" in capsys.readouterr().err
    assert contents(run) == contents(whole)


def test_several_damaged_ones_are_all_refused(whole, run, capsys):
    flip(run / CHECKPOINT)
    flip(run / "checkpoints" / KEPT[1])
    assert main(["resume", str(run), "--workers", "1"]) == 0
    assert capsys.readouterr().err.count("damaged: its SHA-256") == 2
    assert contents(run) == contents(whole)
    for path in (run / CHECKPOINT, *(run / "checkpoints").iterdir()):
        flip(path)
    before = contents(run)
    with pytest.raises(StagewiseError, match="there is no other that is undamaged"):
        resume(run)
    assert contents(run) == before


@pytest.mark.fault(
    "A line of a run's records is changed", "`check-run` names the file and the round"
)
def test_check_run_verifies_every_line(whole, run, capsys):
    assert main(["check-run", str(run)]) == 0
    for name in ("rounds.jsonl", "decisions.jsonl"):
        path = run / name
        true = path.read_bytes()
        lines = true.splitlines(keepends=True)
        changed = lines[3].replace(b'"round":3', b'"round":3 ')
        path.write_bytes(b"".join([*lines[:3], changed, *lines[4:]]))
        assert main(["check-run", str(run)]) == 1
        assert f"{name}: round 3: is not as it was written" in "".join(capsys.readouterr())
        path.write_bytes(true)
    chain = run / "chain.jsonl"
    lines = chain.read_bytes().splitlines(keepends=True)
    link = json.loads(lines[2])
    link["checkpoint"] = "0" * 64
    chain.write_bytes(b"".join([*lines[:2], json.dumps(link).encode() + b"\n", *lines[3:]]))
    assert main(["check-run", str(run)]) == 1
    assert "chain.jsonl: round 3: does not follow the line before it" in "".join(
        capsys.readouterr()
    )
    chain.write_bytes(b"".join(lines))
    flip(run / "checkpoints" / KEPT[0])
    assert main(["check-run", str(run)]) == 1
    assert f"{KEPT[0]}: damaged" in "".join(capsys.readouterr())


def test_plans_ordered_in_undone_rounds_go_with_them(run):
    """In a deployment other clients may answer, and the plan be another."""
    plans = run / "plans"
    before = sorted(path.name for path in plans.iterdir())
    for ordered_in in (5, 6, 7):
        for suffix in (".json", ".json.library.safetensors"):
            (plans / f"round-{ordered_in:06d}{suffix}").touch()
    names = ["round-000005.json", "round-000005.json.library.safetensors"]
    RunDirectory(run).roll_back(5)
    assert sorted(path.name for path in plans.iterdir()) == sorted({*before, *names})
    assert before and not any(name > names[1] for name in before)


def test_a_run_of_an_earlier_version_goes_on_without_a_chain(whole, run):
    (run / "chain.jsonl").unlink()
    shutil.rmtree(run / "checkpoints")
    assert resume(run).finished
    assert main(["check-run", str(run)]) == 0


def test_rolled_back_rounds_are_played_again(whole, run, capsys):
    assert main(["rollback", str(run), "--to", "5"]) == 0
    assert len(load_run(run).records) == 6
    assert [event.kind for event in RunDirectory(run).events()] == ["rolled-back"]
    resume(run)
    assert main(["check-run", str(run)]) == 0
    found, expected = contents(run), contents(whole)
    assert found.pop("events.jsonl") == [
        {"round": 6, "kind": "rolled-back", "to": 5, "reason": "by hand, from round 8"}
    ]
    assert found == expected
    capsys.readouterr()
    assert main(["rollback", str(run), "--to", "1"]) == 2
    assert "to = 1: must be a round whose checkpoint is kept: 5, 6" in capsys.readouterr().err


def record(number, accuracy, loss=1.0):
    return RoundRecord(number, accuracy, loss, 1.0, 1.0, 1.0, 1, True, 1.0, 1.0)


def test_a_collapse_is_less_than_a_quarter_of_the_accuracy_before():
    watch = CollapseWatch()
    for number, accuracy in enumerate([0.1, 0.4, 0.3, 0.1, None, 0.7, 0.8, 0.8, 0.8]):
        assert watch.collapse(record(number, accuracy)) == ""
    assert watch.last_good == 8
    assert "0.1900: less than 0.25 of 0.8000 before" in watch.collapse(record(9, 0.19))
    assert watch.collapse(record(10, 0.21)) == ""
    assert "not a finite number" in watch.collapse(record(11, 0.9, None))
    assert "not a finite number" in watch.collapse(record(12, 0.9, np.nan))
    assert watch.last_good == 10


def spoil_in(round_index, monkeypatch):
    """The model is lost in a round, by what no limit catches; from zeros it cannot learn again."""
    true = carrier.SimulatedTraining._train

    def train(self, decision):
        outcome = true(self, decision)
        if decision.round.index == round_index:
            self.weights = {name: 0 * array for name, array in self.weights.items()}
        return outcome

    monkeypatch.setattr(carrier.SimulatedTraining, "_train", train)


@pytest.mark.fault("Accuracy collapses", "the run goes on from the last good model")
@pytest.mark.parametrize("evaluate_every", [1, 2])
def test_after_a_collapse_the_last_good_model_is_used_again(tmp_path, monkeypatch, evaluate_every):
    options = {"rounds": 16, "policy": "fedcs", "replanning": Replanning()}
    options |= {"evaluate_every": evaluate_every, "keep_checkpoints": 1}
    spoil_in(11, monkeypatch)
    run = small_run(tmp_path / "whole", **options)
    [event] = RunDirectory(tmp_path / "whole").events()
    assert (event.kind, event.round, event.to) == ("returned", 11, 11 - evaluate_every)
    accuracies = [record.accuracy for record in run.records]
    assert accuracies[11] < 0.25 * accuracies[11 - evaluate_every]
    assert accuracies[-1] > 0.9 * accuracies[11 - evaluate_every]
    # The same after a stop just before and just after.
    for stop in (11, 12):
        stopped_after(stop, tmp_path / str(stop), monkeypatch, **options)
        assert resume(tmp_path / str(stop)).finished
        assert contents(tmp_path / str(stop)) == contents(tmp_path / "whole")


def test_a_missing_checkpoint_is_replaced_by_the_one_before(whole, run):
    (run / CHECKPOINT).unlink()
    assert resume(run).finished
    assert contents(run) == contents(whole)


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_not_damaged(run, monkeypatch):
    """As where a run goes on: the digest of one is not compared with the round of the next."""
    newest = run / CHECKPOINT
    later, earlier = newest.read_bytes(), (run / "checkpoints" / KEPT[1]).read_bytes()
    newest.write_bytes(earlier)
    true = checkpoint_files.load_chain

    def meanwhile(folder):
        newest.write_bytes(later)
        return true(folder)

    monkeypatch.setattr(checkpoint_files, "load_chain", meanwhile)
    assert CheckpointFiles(run).fault(newest) == ""


def test_a_damaged_model_is_never_returned_to(run):
    flip(run / "checkpoints" / KEPT[0])
    directory = RunDirectory(run)
    assert directory.weights_of(5) is None
    assert directory.weights_of(6) is not None
    assert any(KEPT[0] in line for line in directory.faults())


def test_an_unfinished_event_does_not_spoil_a_rollback(run):
    with (run / "events.jsonl").open("ab") as stream:
        stream.write(b'{"round": 3, "kind": "rej')
    RunDirectory(run).roll_back(6)
    [event] = RunDirectory(run).events()
    assert (event.kind, event.to) == ("rolled-back", 6)


def test_a_blank_line_in_the_chain_does_not_spoil_a_rollback(run):
    chain = run / "chain.jsonl"
    chain.write_bytes(chain.read_bytes().replace(b"\n", b"\n\n", 2))
    assert RunDirectory(run).faults() == []
    RunDirectory(run).roll_back(6)
    assert RunDirectory(run).faults() == []


def test_the_model_to_return_to_outlives_a_rollback(tmp_path):
    """Rounds 3 and 7 are evaluated: after going back to 6 it is that of 3."""
    small_run(tmp_path / "run", rounds=8, evaluate_every=4)
    directory = RunDirectory(tmp_path / "run")
    directory.roll_back(6)
    assert directory.weights_of(3) is not None
