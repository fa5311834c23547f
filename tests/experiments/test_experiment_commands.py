"""`stagewise experiment` from end to end: files, exit status, one line for a mistake."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from experiment_cases import SMALL, ThreadWorkers, report, write_small

from helpers import wait_until
from stagewise.cli.main import main
from stagewise_experiments import commands, runner
from stagewise_experiments.catalogue import experiments
from stagewise_experiments.progress import show_progress
from stagewise_experiments.results import CellResult, load_result

COMMAND = [sys.executable, "-m", "stagewise", "experiment"]


@pytest.fixture
def quick_work(monkeypatch) -> None:
    """Cells that cost nothing, in this process."""

    def run_jobs(jobs, workers, work):
        for job in jobs:
            seed = job.request["setting"]["seed"]
            done = report(None) | {"outputs": {"rounds": [{"objective": 1.0 + seed}]}}
            if seed == 9:
                done |= {"outputs": None, "error": "no luck today"}
            yield job.key, done

    monkeypatch.setattr(runner, "run_jobs", run_jobs)
    monkeypatch.setattr(commands, "_workers", lambda count, cluster: ThreadWorkers())


def test_list(capsys):
    assert main(["experiment", "list", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [line["id"] for line in lines] == list(experiments())
    for line in lines:
        assert set(line["cells"]) == {"quick", "full"}
        assert 0 < line["cells"]["quick"] <= line["cells"]["full"]
    assert main(["experiment", "list"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in experiments())


def test_what_only_decides_needs_no_pytorch(tmp_path):
    """`run` of a file without cells that train, where PyTorch cannot be imported."""
    path = write_small(tmp_path, SMALL)
    program = """
import sys
from stagewise_experiments import commands
from stagewise.cli.main import main
sys.path.append(sys.argv.pop(1))
from experiment_cases import ThreadWorkers
sys.modules["torch"] = None
commands._workers = lambda count, cluster: ThreadWorkers()
sys.exit(main(["experiment", "run", *sys.argv[1:]]))
"""
    words = [str(Path(__file__).parent), str(path), "--out", str(tmp_path / "o")]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_list_says_which_data_are_missing(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("STAGEWISE_DATA", str(tmp_path))
    main(["experiment", "list", "--json"])
    data = {line["id"]: line["data"] for line in json.loads(capsys.readouterr().out)}
    assert data["fig-accuracy-mnist"]["mnist"] == "missing"
    (tmp_path / "aid15" / "beach").mkdir(parents=True)
    main(["experiment", "list", "--json"])
    data = {line["id"]: line["data"] for line in json.loads(capsys.readouterr().out)}
    assert data["fig-ali"]["ali"] == "missing, aid15 runs"


def test_run_and_report(quick_work, tmp_path, capsys):
    path = write_small(tmp_path)
    out = tmp_path / "results"
    assert main(["experiment", "run", str(path), "--out", str(out), "--seeds", "3"]) == 0
    result = load_result(out / "small" / "result.json")
    assert (result.profile, result.seeds) == ("quick", [0, 1, 2])
    names = {file.name for file in (out / "small").iterdir()}
    assert {"result.json", "table.md", "picture.png", "picture.svg"} <= names
    assert "12 cells, 0 kept from before" in capsys.readouterr().err
    page = tmp_path / "index.html"
    assert main(["experiment", "report", str(out), "-o", str(page)]) == 0
    assert "Two methods on a small system" in page.read_text()


def test_the_folder_is_by_the_profile(quick_work, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["experiment", "run", str(write_small(tmp_path)), "--profile", "full"]) == 0
    assert load_result("results/full/small/result.json").profile == "full"


def test_failing_cells_show_in_the_exit_status(quick_work, tmp_path, capsys):
    path = write_small(tmp_path, SMALL.replace("seeds = 2", "seeds = 10"))
    assert main(["experiment", "run", str(path), "--out", str(tmp_path / "o")]) == 1
    err = capsys.readouterr().err
    assert err.count("no luck today") == 4
    assert "small: 40 cells, 4 failed" in err
    assert len(load_result(tmp_path / "o" / "small" / "result.json").failed) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nonsense"], "experiment = 'nonsense': must be all, a .toml file or one of"),
        (["run", "none.toml"], "none.toml: cannot be read"),
        (["run", "small.toml", "--profile", "huge"], "'huge' is not one of 'quick', 'full'"),
        (["run", "small.toml", "--workers", "0"], "workers = 0: must be at least 1"),
        (["run", "small.toml", "--seeds", "0"], "seeds = 0: must be at least 1"),
        (["run", "small.toml", "--workers", "2", "--cluster", "tcp://x"], "together with cluster"),
        (["run", "small.toml", "--out", "small.toml/x"], "Not a directory"),
        (["report", "none", "-o", "x.html"], "results = 'none': must be a folder"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    write_small(tmp_path)
    assert main(["experiment", *arguments]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.count("\n") == 1
    assert said in streams.err


@pytest.mark.processes
@pytest.mark.parametrize(
    ("number", "send"),
    [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill), (signal.SIGTERM, os.killpg)],
    ids=["terminal", "kill", "batch system"],
)
def test_an_interrupt_costs_only_what_is_under_way(tmp_path, number, send):
    """Real cells in real processes; the second run does not touch what the first kept."""
    path = write_small(tmp_path, SMALL.replace("rounds = 2", "rounds = 60"))
    out = tmp_path / "o"
    command = [*COMMAND, "run", str(path), "--out", str(out), "--workers", "2"]
    command += ["--seeds", "40"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    wait_until(lambda: list(out.glob("cells/*.json")) or process.poll() is not None, 100)
    assert process.poll() is None, process.stderr.read()
    send(process.pid, number)
    error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130
    assert "Traceback" not in error
    assert error.endswith("stagewise: interrupted; the same command goes on where this ended\n")
    kept = {file: file.stat().st_mtime_ns for file in (out / "cells").glob("*.json")}
    assert 0 < len(kept) < 160
    assert len(load_result(out / "small" / "unfinished.json").cells) == len(kept)

    second = subprocess.run([*command[:-1], "2"], stderr=subprocess.PIPE, timeout=100)
    assert second.returncode == 0, second.stderr
    assert all(file.stat().st_mtime_ns == when for file, when in kept.items())
    result = load_result(out / "small" / "result.json")
    assert len(result.cells) == 8
    assert all(len(cell.outputs["rounds"]) == 60 for cell in result.cells)


def test_missing_data_fail_the_cells_that_need_them(tmp_path):
    text = SMALL.replace("clients = 12", 'kind = "eua"').replace('"client-sel-only"', "")
    text = text.replace("values = [0.5, 0.9]", "values = [0.5]")
    path = write_small(tmp_path, text)
    environment = {k: v for k, v in os.environ.items() if k != "STAGEWISE_DATA"}
    done = subprocess.run(
        [*COMMAND, "run", str(path), "--out", str(tmp_path / "o"), "--workers", "1"],
        env=environment,
        stderr=subprocess.PIPE,
        timeout=100,
    )
    error = done.stderr.decode()
    assert done.returncode == 1, error
    assert error.count("failed: decisions, c2e-assoc-only, p 0.5, seed") == 2
    assert "eua" in error
    assert "STAGEWISE_DATA is not set" in error


def test_a_bar_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    cell = some_cell()
    with show_progress(3) as progress:
        progress.advance(cell, lambda: 150.0)
        progress.print_line("a line that stays")
        progress.advance(cell, lambda: None)
    shown = sys.stderr.getvalue()
    assert "2/3" in shown
    assert "min left" in shown
    assert "2 failed" in shown
    assert "a line that stays" in shown


def test_lines_elsewhere(capsys):
    cell = some_cell()
    with show_progress(2) as progress:
        progress.advance(cell, lambda: 7200.0)
        progress.advance(cell, lambda: 0.0)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "cell 1/2: decisions, fedcs, p 0.5, seed 3 in 2.5 s; about 2.0 h left"
    assert last == "cell 2/2: decisions, fedcs, p 0.5, seed 3 in 2.5 s; done"


def some_cell() -> CellResult:
    from stagewise_experiments.setting import Setting

    return CellResult(
        setting=Setting(measure="decisions", policy="fedcs", seed=3),
        point={"p": 0.5},
        policy="fedcs",
        seed=3,
        key="0",
        outputs=None,
        error="no luck",
        seconds=2.5,
    )
