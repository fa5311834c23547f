"""Cells on a Dask cluster: a real scheduler with two workers on this machine."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import experiment_cases as cases
import msgspec
import pytest
from experiment_cases import small

pytest.importorskip("distributed")

import stagewise
import stagewise_experiments
from helpers import wait_until
from stagewise.errors import StagewiseError
from stagewise_experiments import executors
from stagewise_experiments.code_version import code_version, digest_of
from stagewise_experiments.executors import ClusterWorkers, ProcessWorkers
from stagewise_experiments.results import FILE, CellResult, load_result
from stagewise_experiments.runner import run_experiments
from stagewise_experiments.worker import work

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("cluster")]


class Cluster:
    """A scheduler and two workers of one thread each, in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)
        )
        wait_until(file.exists)
        self.address = msgspec.json.decode(file.read_bytes())["address"]
        self.start_workers(2)

    def start_workers(self, count: int, path: str = "") -> subprocess.Popen[bytes]:
        """Workers that look for modules in `path` first."""
        options = ("--nworkers", str(count), "--nthreads", "1", "--host", "127.0.0.1")
        place = ("--local-directory", str(self.folder))
        return self._start("worker", self.address, *options, *place, path=path)

    def _start(self, kind: str, *arguments: str, path: str = "") -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([path, cases.import_path()]),
            cases.FOLDER_VARIABLE: str(self.folder),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", kind, "--no-dashboard", *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def connect(self) -> ClusterWorkers:
        workers = ClusterWorkers(self.address)
        wait_until(lambda: workers.count == 2)
        return workers

    def stop(self) -> None:
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):  # a worker's own processes among them
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.stop()


def run(out: Path, workers, work=work, **changes) -> int:
    try:
        return run_experiments(
            [small(**changes)],
            "quick",
            out,
            workers,
            present=lambda result, where: None,
            work=work,
        )
    finally:
        workers.stop()


def cells(out: Path) -> list[CellResult]:
    return load_result(out / "small" / "result.json").cells


def without_times(value):
    """Outputs without what depends on the clock."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if not k.endswith("_ms")}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def test_the_same_results_as_on_this_machine(cluster, tmp_path):
    assert run(tmp_path / "here", ProcessWorkers(2)) == 0
    assert run(tmp_path / "there", cluster.connect()) == 0
    here, there = cells(tmp_path / "here"), cells(tmp_path / "there")
    assert [cell.key for cell in here] == [cell.key for cell in there]
    assert [without_times(c.outputs) for c in here] == [without_times(c.outputs) for c in there]
    assert all(len(cell.outputs["rounds"]) == 2 for cell in there)
    # Kept cells serve both: nothing is left to run.
    assert run(tmp_path / "here", cluster.connect(), lambda request: pytest.fail("run again")) == 0


def test_both_workers_have_cells(cluster, tmp_path):
    assert run(tmp_path, cluster.connect(), cases.process_id) == 0
    workers = {cell.outputs["value"] for cell in cells(tmp_path)}
    assert len(workers) == 2
    assert os.getpid() not in workers


def test_a_cell_that_kills_its_worker_is_reported(cluster, tmp_path):
    only = {"axes": [], "profiles": {"quick": {"seeds": 2}}}
    assert run(tmp_path, cluster.connect(), cases.fatal_for_seed_1_later, **only) == 2
    assert [cell.outputs and cell.outputs["value"] for cell in cells(tmp_path)] == [0, None] * 2
    assert all("KilledWorker" in cell.error for cell in cells(tmp_path) if cell.error)


def test_workers_of_another_version_are_refused(cluster, tmp_path):
    connected = cluster.connect()
    copy = tmp_path / "stagewise"
    shutil.copytree(Path(stagewise.__file__).parent, copy)
    with (copy / "decisions.py").open("a") as file:
        file.write("# another\n")
    other = cluster.start_workers(1, str(tmp_path))
    try:
        wait_until(lambda: connected.count == 3)
        with pytest.raises(StagewiseError) as error:
            ClusterWorkers(cluster.address)
        experiments = Path(stagewise_experiments.__file__).parent
        other_version = digest_of(copy, experiments)
        versions = f"is {other_version}, not {code_version()}: install there the same stagewise"
        assert "cluster: the code version of worker tcp://127.0.0.1:" in str(error.value)
        assert versions in str(error.value)
        # One that comes when cells are running refuses them.
        run(tmp_path, connected)
        errors = {cell.error for cell in cells(tmp_path) if cell.error}
        assert errors
        assert all(f"the worker's code version {versions}" in error for error in errors)
    finally:
        os.killpg(other.pid, signal.SIGTERM)
        other.wait(30)


def test_nobody_at_the_address(monkeypatch):
    monkeypatch.setattr(executors, "_CONNECT_SECONDS", 0.2)
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(StagewiseError, match="no Dask scheduler answers there") as error:
            ClusterWorkers(address)
        assert "\n" not in str(error.value)


def test_a_scheduler_that_goes_away(cluster, tmp_path):
    """The last test of this file. The run ends with one line, and what had ended is kept."""
    workers = cluster.connect()
    kept = tmp_path / "cells"
    (cluster.folder / "began").unlink(missing_ok=True)

    def end_the_scheduler() -> None:
        wait_until(lambda: len(list(kept.glob("*.json"))) >= 2)
        cluster.scheduler.kill()

    thread = threading.Thread(target=end_the_scheduler)
    thread.start()
    with pytest.raises(StagewiseError, match="connection to the cluster was lost"):
        run(tmp_path, workers, cases.six_and_no_more, profiles={"quick": {"seeds": 20}})
    thread.join()
    assert not (tmp_path / "small" / FILE).exists()
    assert 2 <= len(list(kept.glob("*.json"))) < 80
