"""Cells over workers: nothing is lost, nothing done twice, and a bad cell harms no other."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import experiment_cases as cases
import msgspec
import pytest
from experiment_cases import ThreadWorkers, began, report, small

from helpers import wait_until
from stagewise.errors import StagewiseError
from stagewise_experiments import worker
from stagewise_experiments.cache import Cache
from stagewise_experiments.cells import cells_of
from stagewise_experiments.executors import ProcessWorkers
from stagewise_experiments.results import FILE, UNFINISHED, Result, load_result, save_result
from stagewise_experiments.runner import run_experiments
from stagewise_experiments.setting import Setting
from stagewise_experiments.timings import Timings, kinds_of

CELLS = 8


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """Where stand-ins for work leave their traces."""
    monkeypatch.setenv(cases.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def run(out, work, *, experiments=None, workers=None, profile="quick", present=None, seeds=None):
    workers = workers or ThreadWorkers()
    try:
        return run_experiments(
            experiments or [small()],
            profile,
            out,
            workers,
            present=present or (lambda result, where: None),
            seeds=seeds,
            work=work,
        )
    finally:
        workers.stop()


def values(out: Path, name: str = "small") -> list:
    return [c.outputs and c.outputs["value"] for c in load_result(out / name / "result.json").cells]


def test_all_cells_run_once_and_their_result_is_written(tmp_path):
    shown = []
    present = lambda result, where: shown.append((result, where))  # noqa: E731
    assert run(tmp_path, cases.traced, present=present) == 0
    result = load_result(tmp_path / "small" / "result.json")
    assert shown == [(result, tmp_path / "small")]
    assert [cell.setting for cell in result.cells] == [
        cell.setting for cell in cells_of(small(), "quick")
    ]
    assert [cell.outputs for cell in result.cells] == [{"value": s % 2} for s in range(CELLS)]
    assert result.experiment == small()
    assert (result.profile, result.seeds, result.failed) == ("quick", [0, 1], [])
    assert len(began(tmp_path)) == len(set(began(tmp_path))) == CELLS


def test_nothing_is_run_again(tmp_path):
    run(tmp_path, cases.traced)
    first = (tmp_path / "small" / "result.json").read_bytes()
    run(tmp_path, cases.traced)
    assert len(began(tmp_path)) == CELLS
    assert (tmp_path / "small" / "result.json").read_bytes() == first
    run(tmp_path, cases.traced, seeds=3)
    assert len(began(tmp_path)) == CELLS + 4


def test_another_machine_goes_on_from_what_is_not_finished(tmp_path, monkeypatch):
    """All it needs is the file: cells that are in it keep their machine, the others run there."""

    def interrupted(cache, key, request, report):
        if len(began(tmp_path)) >= 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Cache, "put", interrupted)
        run(tmp_path / "here", cases.traced)
    begun = load_result(tmp_path / "here" / "small" / UNFINISHED)
    (tmp_path / "began").unlink()  # cells under way are lost
    assert 1 <= len(begun.cells) < CELLS
    elsewhere = msgspec.structs.replace(begun.machines[0], cpu="another processor")
    there = tmp_path / "there" / "small"
    there.mkdir(parents=True)
    save_result(msgspec.structs.replace(begun, machines=[elsewhere]), there / UNFINISHED)

    assert run(there.parent, cases.traced) == 0
    assert len(began(tmp_path)) == CELLS - len(begun.cells)
    result = load_result(there / FILE)
    assert [cell.outputs for cell in result.cells] == [{"value": s % 2} for s in range(CELLS)]
    before = {cell.key for cell in begun.cells}
    assert {c.key for c in result.cells if result.machines[c.machine] == elsewhere} == before
    assert not (there / UNFINISHED).exists()


def test_what_came_from_another_machine_stays_whatever_is_run_first(tmp_path):
    run(tmp_path / "here", cases.traced, seeds=3)
    there = tmp_path / "there" / "small"
    there.mkdir(parents=True)
    (tmp_path / "here" / "small" / FILE).rename(there / UNFINISHED)
    (tmp_path / "began").unlink()
    run(there.parent, cases.traced, seeds=1)  # a smaller result takes its place
    run(there.parent, cases.traced, seeds=3)
    assert began(tmp_path) == []


def test_a_cell_under_the_key_of_another_is_not_taken(tmp_path):
    run(tmp_path / "here", cases.traced)
    result = load_result(tmp_path / "here" / "small" / FILE)
    first, second, *others = result.cells
    exchanged = [
        msgspec.structs.replace(first, key=second.key),
        msgspec.structs.replace(second, key=first.key),
        *others,
    ]
    there = tmp_path / "there" / "small"
    there.mkdir(parents=True)
    save_result(msgspec.structs.replace(result, cells=exchanged), there / UNFINISHED)
    (tmp_path / "began").unlink()
    run(there.parent, cases.traced)
    assert len(began(tmp_path)) == 2
    assert values(there.parent) == values(tmp_path / "here")


def test_an_unfinished_result_that_is_damaged_is_as_good_as_none(tmp_path):
    run(tmp_path / "here", cases.traced)
    there = tmp_path / "there" / "small"
    there.mkdir(parents=True)
    whole = (tmp_path / "here" / "small" / FILE).read_bytes()
    (there / UNFINISHED).write_bytes(whole[: len(whole) // 2])
    assert run(there.parent, cases.traced) == 0
    assert len(began(tmp_path)) == 2 * CELLS


def test_a_change_of_the_code_runs_everything_again(tmp_path, monkeypatch):
    run(tmp_path, cases.traced)
    monkeypatch.setattr(worker, "code_version", lambda: "another")
    run(tmp_path, cases.traced)
    assert set(Counter(began(tmp_path)).values()) == {2}


def test_cells_that_experiments_share_run_once(tmp_path):
    other = small(id="other", policies=["client-sel-only", "fedcs"])
    assert run(tmp_path, cases.traced, experiments=[small(), other]) == 0
    assert len(began(tmp_path)) == len(set(began(tmp_path))) == CELLS + 4
    assert values(tmp_path, "other") == values(tmp_path, "small")


def test_a_failing_cell_is_reported_and_the_rest_goes_on(tmp_path, capsys):
    def work(request):
        if request["setting"]["seed"] == 1 and request["setting"]["policy"] == "client-sel-only":
            return report(None) | {"outputs": None, "error": "no luck today"}
        return cases.traced(request)

    assert run(tmp_path, work) == 2
    assert values(tmp_path) == [0, 1, 0, None, 0, 1, 0, None]
    result = load_result(tmp_path / "small" / "result.json")
    assert [cell.error for cell in result.failed] == ["no luck today"] * 2
    err = capsys.readouterr().err
    for p in (0.5, 0.9):
        line = f"failed: decisions, client-sel-only, p {p}, seed 1: no luck today\n"
        assert line in err
    # What failed is tried again, what went well is not.
    assert run(tmp_path, cases.traced) == 0
    assert len(began(tmp_path)) == len(set(began(tmp_path))) == CELLS


def test_work_that_raises_is_a_failing_cell(tmp_path):
    def work(request):
        if request["setting"]["seed"] == 0:
            raise RuntimeError("not even\na report")
        return cases.traced(request)

    assert run(tmp_path, work) == 4
    errors = {cell.error for cell in load_result(tmp_path / "small" / "result.json").failed}
    assert errors == {"RuntimeError: not even a report"}


def test_pictures_that_cannot_be_made_stop_nothing(tmp_path, capsys):
    def present(result: Result, where: Path) -> None:
        if result.experiment.id == "small":
            raise ZeroDivisionError("no picture")

    experiments = [small(), small(id="other")]
    assert run(tmp_path, cases.traced, experiments=experiments, present=present) == 1
    assert values(tmp_path, "other") == values(tmp_path, "small")
    assert "failed: small: no table and pictures: ZeroDivisionError" in capsys.readouterr().err


def test_files_are_written_after_the_last_cell_of_each_experiment(tmp_path):
    shown = {}
    others = {"id": "other", "policies": ["fedcs"]}
    run(
        tmp_path,
        cases.traced,
        experiments=[small(), small(**others)],
        present=lambda result, where: shown.setdefault(where.name, len(began(tmp_path))),
    )
    assert shown == {"small": CELLS, "other": CELLS + 4}


def test_the_longest_cells_come_first(tmp_path):
    seconds = {"client-sel-only": 5.0, "c2e-assoc-only": 1.0}
    run(
        tmp_path,
        lambda request: cases.traced(request) | {"seconds": seconds[request["setting"]["policy"]]},
    )
    (tmp_path / "began").unlink()
    new = small(policies=["c2e-assoc-only", "fedcs", "client-sel-only"])
    run(tmp_path, cases.traced, experiments=[new], profile="full")
    order = [line.split()[0] for line in began(tmp_path)]
    # Nothing is known about FedCS but that it decides: it is taken for the mean.
    assert order == ["client-sel-only"] * 6 + ["fedcs"] * 6 + ["c2e-assoc-only"] * 6


def test_expected_times():
    timings, setting = Timings(), cells_of(small(), "quick")[0].setting
    assert timings.expected(kinds_of(setting)) is None
    assert timings.left([kinds_of(setting)], 2) is None
    timings.learn(setting, 4.0)
    timings.learn(msgspec.structs.replace(setting, seed=9), 6.0)
    assert timings.expected(kinds_of(setting)) == 5.0
    other = msgspec.structs.replace(setting, policy="fedcs", rounds=9)
    assert timings.expected(kinds_of(other)) == 5.0
    training = msgspec.structs.replace(setting, measure="training")
    assert timings.expected(kinds_of(training)) == 5.0
    timings.learn(msgspec.structs.replace(training, policy="fedcs"), 50.0)
    assert timings.expected(kinds_of(training)) == 50.0
    assert timings.expected(kinds_of(other)) == 5.0
    assert timings.left([kinds_of(setting)] * 6, 2) == 15.0
    assert timings.left([kinds_of(setting)], 2) == 5.0
    assert timings.left([], 2) == 0.0


def test_workers_have_one_thread_each_and_leave_the_environment(tmp_path):
    before = dict(os.environ)
    run(tmp_path, cases.threads_of_worker, workers=ProcessWorkers(1), seeds=1)
    assert dict(os.environ) == before
    threads = [number for found in values(tmp_path) for number in found]
    assert threads
    assert set(threads) == {1}


@pytest.mark.processes
def test_a_cell_that_kills_its_worker_is_blamed_alone(tmp_path):
    failures = run(tmp_path, cases.fatal_for_seed_1, workers=ProcessWorkers(2), seeds=3)
    assert failures == 4
    assert values(tmp_path) == [0, None, 2] * 4
    errors = {cell.error for cell in load_result(tmp_path / "small" / "result.json").failed}
    assert errors == {
        "its worker process ended before the cell did, twice: killed, or out of memory"
    }
    assert {count for name, count in Counter(began(tmp_path)).items() if name[-1] == "1"} == {2}


@pytest.mark.processes
def test_a_worker_that_is_killed_once_costs_nothing(tmp_path):
    assert run(tmp_path, cases.killed_once, workers=ProcessWorkers(2)) == 0
    assert values(tmp_path) == [0, 1] * 4


SCRIPT = """
import sys
from pathlib import Path
import experiment_cases as cases
from stagewise_experiments.executors import ProcessWorkers
from stagewise_experiments.runner import run_experiments

if __name__ == "__main__":
    workers = ProcessWorkers(2)
    try:
        run_experiments([cases.small()], "quick", Path(sys.argv[1]), workers, seeds=10,
                        present=lambda result, where: None, work=cases.six_and_no_more)
    finally:
        workers.stop()
"""


@pytest.mark.processes
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_after_any_interruption_nothing_that_had_finished_is_repeated(tmp_path, how):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": cases.import_path()}
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    kept = tmp_path / "cells"
    wait_until(lambda: len(list(kept.glob("*.json"))) >= 5 or process.poll() is not None)
    assert process.poll() is None, process.stderr.read()
    if how == signal.SIGKILL:
        process.kill()  # the parent alone: its workers must notice
    else:
        os.killpg(process.pid, how)  # as a terminal does
    error = process.communicate(timeout=30)[1].decode()
    assert error.count("Traceback") == (how == signal.SIGINT)  # of the script, not of workers
    wait_for_the_end_of(process.pid)
    finished = len(list(kept.glob("*.json")))
    before = Counter(began(tmp_path))
    assert 5 <= finished < 40
    assert not (tmp_path / "small" / FILE).exists()
    assert (tmp_path / "small" / UNFINISHED).exists() == (how == signal.SIGINT)

    assert run(tmp_path, cases.traced, seeds=10) == 0
    assert not (tmp_path / "small" / UNFINISHED).exists()
    again = Counter(began(tmp_path)) - before
    assert sum(again.values()) == 40 - finished
    assert len(values(tmp_path)) == 40
    assert set(Counter(began(tmp_path)).values()) <= {1, 2}
    # Only cells that were under way began twice.
    assert sum(count == 2 for count in Counter(began(tmp_path)).values()) <= 3


def wait_for_the_end_of(group: int) -> None:
    """Until no process of the group is left."""

    def ended() -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(ended)


def test_a_worker_of_another_version_refuses():
    setting = cells_of(small(), "quick")[0].setting
    request = worker.request_of(setting) | {"code_version": "other"}
    done = worker.work(request)
    assert done["outputs"] is None
    assert "the worker's code version is " in done["error"]
    assert "not other: install there the same stagewise" in done["error"]


def test_a_worker_with_other_data_refuses(monkeypatch, tmp_path):
    setting = cells_of(small(setting={"scenario": {"kind": "eua"}}), "quick")[0].setting
    request = worker.request_of(setting)
    assert request["data"].keys() == {"eua"}
    monkeypatch.setenv("STAGEWISE_DATA", str(tmp_path))
    done = worker.work(request | {"data": {"eua": "0123"}})
    assert done["error"].startswith("eua: not found: workers must have the same data")
    # Nowhere found: the cell itself says what it needs.
    assert "eua" in worker.work(request | {"data": {"eua": "missing"}})["error"]


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (StagewiseError("field = 1: must be 2"), "field = 1: must be 2"),
        (MemoryError(), "not enough memory"),
        (KeyError("gone"), "KeyError: 'gone' (test_experiment_runner.py, line "),
    ],
)
def test_whatever_goes_wrong_in_a_cell_is_one_line(monkeypatch, failure, said):
    def run_cell(setting: Setting, device: str, folder: Path | None) -> dict:
        raise failure

    monkeypatch.setattr("stagewise_experiments.measures.run_cell", run_cell)
    done = worker.work(worker.request_of(cells_of(small(), "quick")[0].setting))
    assert done["outputs"] is None
    assert done["error"].startswith(said)


def test_outputs_that_are_no_json_are_a_failure(monkeypatch):
    monkeypatch.setattr(
        "stagewise_experiments.measures.run_cell", lambda setting, device, folder: {"x": object()}
    )
    done = worker.work(worker.request_of(cells_of(small(), "quick")[0].setting))
    assert done["error"].startswith("TypeError")


def test_results_survive_their_file(tmp_path):
    run(tmp_path, cases.traced)
    result = load_result(tmp_path / "small" / "result.json")
    printed = {"quantity": "objective", "policy": "client-sel-only"}
    experiment = small(paper_values=[printed | {"value": float("inf")}, printed | {"value": 2.5}])
    result = msgspec.structs.replace(result, experiment=experiment)
    save_result(result, tmp_path / "other.json")
    assert load_result(tmp_path / "other.json") == result
    (tmp_path / "bad.json").write_text('{"format": "stagewise-result/9"}')
    with pytest.raises(StagewiseError, match=r"bad\.json: .*stagewise-result/9"):
        load_result(tmp_path / "bad.json")
