"""Compiled code by parts: shared out among processes, marked on disk, and complete."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("interpreter", ["/nowhere/python", "", None])
def test_without_another_interpreter_all_is_done_here(interpreter, tmp_path):
    loaded = tmp_path / "loaded"
    program = (
        "import os, sys, loading_parts as p; os.environ['ASKING'] = str(os.getpid());"
        f"sys.executable = {interpreter!r};"
        "from stagewise import loading; loading.available_cores = lambda: 2;"
        "loading.load(p.first, p.second); assert loading.is_compiled(p.second)"
    )
    done = run("-c", program, cache=tmp_path, LOADED=str(loaded))
    assert done.returncode == 0, done.stderr
    assert loaded.read_text().splitlines() == ["first here", "second here"]


def test_without_a_place_on_disk_nothing_is_shared(tmp_path):
    (tmp_path / "stagewise").write_text("a file where the folder would be")
    loaded = tmp_path / "loaded"
    program = (
        "import os, loading_parts as p; os.environ['ASKING'] = str(os.getpid());"
        "from stagewise import loading; loading.load(p.first, p.second);"
        "assert not loading.is_compiled(p.first)"
    )
    done = run("-c", program, cache=tmp_path, LOADED=str(loaded))
    assert done.returncode == 0, done.stderr
    assert loaded.read_text().splitlines() == ["first here", "second here"]
