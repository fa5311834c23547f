"""How the hot loops are compiled, and where the compiled code is kept."""

import hashlib
import os
import platform
import sys
import tempfile
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
import numpy as np
from numba._dynfunc import make_function
from numba.core import types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.cpu import CPUContext
from numba.core.registry import CPUDispatcher, CPUTarget
from numba.core.target_extension import (
    CPU,
    dispatcher_registry,
    jit_registry,
    target_override,
    target_registry,
)
from numba.core.targetconfig import ConfigStack

NONE = -1
"""No index: no client, link, edge or cluster, in compiled functions and in the arrays they fill."""

_TARGET = "stagewise"
Number = TypeVar("Number", bound=np.generic)


class _Library(JITCodeLibrary):
    """The code of a function, and of those it calls."""

    for_linking = False
    """Part of its callers alone: neither optimised nor made into machine code by itself."""

    def _optimize_final_module(self) -> None:
        if not self.for_linking:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        if self.for_linking:
            self._finalized = True
        else:
            super()._finalize_final_module()


class _Codegen(JITCPUCodegen):
    """Compiles for all instructions this processor has, but scheduled as for any x86-64.

    LLVM's model of some processors (znver4) makes the search fifteen times slower than its plain
    one. Who sets numba's own variables decides for themselves.
    """

    _library_class = _Library

    def _get_host_cpu_name(self) -> str:
        settings: Any = numba.config
        given = settings.CPU_NAME is not None or settings.CPU_FEATURES is not None
        if platform.machine().lower() in ("x86_64", "amd64") and not given:
            return "x86-64"
        return str(super()._get_host_cpu_name())


class _Context(CPUContext):
    def init(self) -> None:
        super().init()
        self._internal_codegen = _Codegen("stagewise.exec")

    def get_executable(self, library: _Library, fndesc: Any, env: Any) -> Any:
        flags = ConfigStack.top_or_none()
        if flags is None or not flags.no_cpython_wrapper:
            return super().get_executable(library, fndesc, env)
        library.for_linking = True
        name = fndesc.qualname.rpartition(".")[2]
        return make_function(fndesc.lookup_module(), name, "", 0, env, (library,))


class _Target(CPUTarget):
    @cached_property
    def _toplevel_target_context(self) -> _Context:
        return _Context(self.typing_context, self._target_name)


class _StagewiseCPU(CPU):
    """A target of our own: functions of others are compiled with numba's own settings."""


target_registry[_TARGET] = _StagewiseCPU


class _Inner(CPUDispatcher):
    """A function as compiled functions call it: without what Python needs to call it."""

    targetdescr = _Target(_TARGET)


class _Dispatcher(CPUDispatcher):
    """A function as Python calls it."""

    targetdescr = _Inner.targetdescr

    def __init__(self, py_func: Any, *, targetoptions: dict[str, Any], **more: Any) -> None:
        super().__init__(py_func, targetoptions=targetoptions, **more)
        inner = {**targetoptions, "no_cpython_wrapper": True}
        self.inner = _Inner(py_func, targetoptions=inner, **more)

    def compile(self, sig: Any) -> Any:
        with target_override(_TARGET):
            return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        # numba would compile a function again for each constant that another one calls it with.
        return self.inner.get_call_template([types.unliteral(one) for one in args], kws)

    def get_overload(self, sig: Any) -> Any:
        return self.inner.get_overload(sig)


dispatcher_registry[_StagewiseCPU] = _Dispatcher
jit_registry[_StagewiseCPU] = partial(numba.jit, _target=_TARGET)


def compiled(function: Any) -> Any:
    """Compile `function` for the search: kept on disk, the GIL released, without reference counts.

    The search hands tuples of some thirty arrays from function to function. Counting references to
    each of them at every call took three quarters of the time; nothing compiled here allocates or
    keeps an array, so none needs counting.
    """
    return _compile(function)


def inlined(function: Any) -> Any:
    """Compile `function` as part of every compiled function that calls it.

    For what the hottest loops call. Such a tuple is some three hundred words to a call, and whether
    LLVM spares a call is otherwise left to its guess of a function's size, which a line more may tip.
    """
    return _compile(function, forceinline=True)


def _compile(function: Any, **more: Any) -> Any:
    options = {
        "cache": True,
        "nogil": True,
        "error_model": "numpy",
        "no_cfunc_wrapper": True,
        "_nrt": False,
        **more,
    }
    settings: Any = numba.config
    njit: Any = numba.njit  # whose types do not know our target
    # Where a function's code is kept is settled here, once; what others decorate is not touched.
    before = settings.CACHE_DIR
    settings.CACHE_DIR = _cache_folder()
    try:
        return njit(_target=_TARGET, **options)(function)
    finally:
        settings.CACHE_DIR = before


def writable(array: np.ndarray[Any, np.dtype[Number]]) -> np.ndarray[Any, np.dtype[Number]]:
    """The array itself, or a copy where it is read-only.

    Arrays of scenarios and rounds are read-only, which is another type to numba: every function they
    are handed to would be compiled once more.
    """
    return array if array.flags.writeable else array.copy()


@cache
def lasting_folder() -> Path | None:
    """The folder of compiled code, for this very state of the sources; or None without a home.

    numba notices a change in a function's own file, but not in a function that it calls from another
    one; with a folder for each state, code of two states can never mix. A file's path and time belong
    to the state, since numba compiles again where they differ.
    """
    made_for = (numba.__version__, sys.implementation.cache_tag, llvm.get_host_cpu_name())
    digest = hashlib.sha256(repr(made_for).encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        source = path.read_bytes()
        if b"stagewise.compiled import" in source or b"numba.extending import" in source:
            digest.update(f"{path.resolve()} {path.stat().st_mtime_ns} ".encode() + source)
    name = digest.hexdigest()[:16]
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(user) / "stagewise" / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if os.access(folder, os.W_OK) else None
    except OSError:
        return None


@cache
def _cache_folder() -> str:
    """Where compiled code is kept; without a home a private folder, for this process alone."""
    return str(lasting_folder() or tempfile.mkdtemp(prefix="stagewise-"))
