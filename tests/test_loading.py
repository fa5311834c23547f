"""Compiled code by parts: shared out among processes, marked on disk, and complete."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stagewise

HERE = Path(__file__).parent

COMPLETE = """
import stagewise
from compiled_signatures import dispatchers
from stagewise.loading import load
from stagewise.plan_b.pool import load_clusters
from stagewise.warm_up import load_search

def loaded():
    return {name for name, one in dispatchers().items() if one.signatures}

load(load_search, load_clusters)
before = loaded()
scenario = stagewise.generate.numeric(clients=24, edges=2, seed=1)
rounds = stagewise.participation.bernoulli(scenario, 3, seed=1)
plan = stagewise.plan(scenario)
for mode in ("strict", "flexible"):
    stagewise.decide(plan, rounds, mode=mode)
assert len(before) > 5
assert loaded() == before, loaded() - before
"""


def run(*arguments, cache=None, **environment):
    env = {**os.environ, "PYTHONPATH": str(HERE), **environment}
    if cache is not None:
        env["XDG_CACHE_HOME"] = str(cache)
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_parts_hold_all_that_a_plan_and_its_rounds_call():
    done = run("-c", COMPLETE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("cores", "parts", "expected"),
    [
        # This process loads in the end what another one has compiled.
        (2, ("first", "second"), {"first here", "second elsewhere", "second here"}),
        (1, ("first", "second"), {"first here", "second here"}),
        (9, ("second",), {"second here"}),
        (
            2,
            ("first", "fails_elsewhere"),
            {"first here", "fails_elsewhere elsewhere", "fails_elsewhere here"},
        ),
    ],
)
def test_missing_parts_are_shared_out_once(cores, parts, expected, tmp_path):
    loaded = tmp_path / "loaded"
    program = HERE / "loading_parts.py"
    done = run(program, cores, *parts, cache=tmp_path, LOADED=str(loaded))
    assert done.returncode == 0, done.stderr
    lines = loaded.read_text().splitlines()
    assert set(lines) == expected
    assert len(lines) == len(expected)
    loaded.unlink()
    done = run(program, cores, *parts, cache=tmp_path, LOADED=str(loaded))
    assert done.returncode == 0, done.stderr
    assert sorted(loaded.read_text().splitlines()) == sorted(f"{part} here" for part in parts)


def loaded_by(program: str, tmp_path: Path) -> list[str]:
    """Who loaded which part in a process that executes `program`, where `p` has the parts."""
    loaded = tmp_path / "loaded"
    begin = "import os, sys, loading_parts as p; os.environ['ASKING'] = str(os.getpid());"
    done = run("-c", begin + program, cache=tmp_path, LOADED=str(loaded))
    assert done.returncode == 0, done.stderr
    return loaded.read_text().splitlines()


@pytest.mark.parametrize("interpreter", ["/nowhere/python", "", None])
def test_without_another_interpreter_all_is_done_here(interpreter, tmp_path):
    program = (
        f"sys.executable = {interpreter!r};"
        "from stagewise import loading; loading.available_cores = lambda: 2;"
        "loading.load(p.first, p.second); assert loading.is_compiled(p.second)"
    )
    assert loaded_by(program, tmp_path) == ["first here", "second here"]


def test_without_a_place_on_disk_nothing_is_shared(tmp_path):
    (tmp_path / "stagewise").write_text("a file where the folder would be")
    program = (
        "from stagewise import loading; loading.load(p.first, p.second);"
        "assert not loading.is_compiled(p.first)"
    )
    assert loaded_by(program, tmp_path) == ["first here", "second here"]


def test_it_is_said_once_that_something_is_compiled(tmp_path):
    (tmp_path / "stagewise").write_text("a file where the folder would be")
    program = (
        "import logging, loading_parts as p; logging.basicConfig(level='INFO');"
        "from stagewise import loading; [loading.load(p.first) for _ in range(3)]"
    )
    files = {"cache": tmp_path, "LOADED": str(tmp_path / "loaded"), "ASKING": "0"}
    assert run("-c", program, **files).stderr.count("compiling") == 1
    assert run("-c", program, **files, NUMBA_DISABLE_JIT="1").stderr == ""


def test_nothing_of_the_working_folder_is_executed(tmp_path, monkeypatch):
    """Another process that compiles must not import whatever lies there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "numba.py").write_text("open('executed', 'w').close()")
    program = HERE / "loading_parts.py"
    done = run(program, 2, "first", "second", cache=tmp_path, LOADED=str(tmp_path / "loaded"))
    assert done.returncode == 0, done.stderr
    assert "second elsewhere" in (tmp_path / "loaded").read_text()
    assert not (tmp_path / "executed").exists()


def test_another_copy_of_the_sources_is_not_compiled_yet(tmp_path):
    copy = shutil.copytree(Path(stagewise.__file__).parent, tmp_path / "copy" / "stagewise")
    program = "from stagewise.compiled import lasting_folder; print(lasting_folder())"
    here = run("-c", program, cache=tmp_path).stdout
    there = run("-c", program, cache=tmp_path, PYTHONPATH=str(copy.parent)).stdout
    assert here and there and here != there
    # Functions that numba puts in place of others belong to the code of those that call them.
    source = copy / "training" / "bfloat16.py"
    source.write_text(source.read_text() + "\n")
    changed = run("-c", program, cache=tmp_path, PYTHONPATH=str(copy.parent)).stdout
    assert changed not in ("", there)
