"""Compiled functions: a target of our own, and one signature whether arrays are read-only or not."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers import PROFILE
from stagewise.compiled import writable

FOREIGN = """
import numba
import numpy as np

names = ("CPU_NAME", "CPU_FEATURES", "CACHE_DIR")
before = [getattr(numba.config, name) for name in names]

from stagewise.search.random_bits import bits_from, uniform

assert 0 <= uniform(bits_from(1)) < 1
assert [getattr(numba.config, name) for name in names] == before


@numba.njit
def total(count):
    parts = [np.full(2, float(i)) for i in range(count)]
    return sum([part.sum() for part in parts])


assert total(5) == 20.0
own, foreign = (f.targetctx.codegen().magic_tuple() for f in (uniform, total))
assert foreign[1] == numba.core.codegen.ll.get_host_cpu_name()
assert own[0] == foreign[0] and own[2] == foreign[2]  # the same machine and instructions
print(own[1])
"""


@pytest.mark.parametrize("name", [None, "generic"])
def test_functions_of_others_are_compiled_with_numbas_own_settings(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    script = FOREIGN
    if name is not None:  # who sets numba's variables decides for our functions, too
        monkeypatch.setenv("NUMBA_CPU_NAME", name)
        script = script.replace("numba.core.codegen.ll.get_host_cpu_name()", repr(name))
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    if name is None and platform.machine().lower() in ("x86_64", "amd64"):
        assert answer.stdout.strip() == "x86-64"
    elif name is not None:
        assert answer.stdout.strip() == name


def test_a_read_only_array_is_copied_and_any_other_is_not():
    array = np.arange(4.0)
    assert writable(array) is array
    array.flags.writeable = False
    copy = writable(array)
    assert copy.flags.writeable and copy.tolist() == array.tolist()
    assert not array.flags.writeable


@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_every_function_is_compiled_once_for_read_only_arrays_too(cache, tmp_path, monkeypatch):
    """But for those that take either whole numbers or fractions.

    A function that is loaded from disk does not tell how often those that it calls were compiled.
    """
    if cache == "cold":
        if PROFILE == "quick":
            pytest.skip("compiles everything: in `make test-all`")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = Path(__file__).with_name("compiled_signatures.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    written, frozen = json.loads(done.stdout)
    assert sum(written.values()) > (70 if cache == "cold" else 15)
    assert frozen == written
    often = {name.rpartition(".")[2] for name, count in frozen.items() if count > 1}
    assert often <= {"label_term", "kld_of", "keeps_limits"}
