"""What a worker does with a cell: makes sure that it may run here, runs it, and says what came out.

Requests and reports are plain JSON values, which workers of any version understand.
"""

import hashlib
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import msgspec

from stagewise.errors import StagewiseError, one_line
from stagewise_experiments.code_version import code_version, policy_version
from stagewise_experiments.inputs import MISSING, data_of, fingerprint
from stagewise_experiments.machine import this_machine
from stagewise_experiments.setting import Setting, make_setting

Request = dict[str, Any]
"""All that decides what comes out of a cell; where it is sent, also the folder of `decisions`."""
Report = dict[str, Any]
"""`outputs` or `error`, `seconds` and `machine`."""

_one_at_a_time = threading.Lock()
"""A worker of several threads would measure how its cells hinder each other."""


def request_of(setting: Setting, device: str = "cpu") -> Request:
    """All that decides what comes out of a cell."""
    return {
        "setting": msgspec.to_builtins(setting),
        "data": {name: fingerprint(name) for name in data_of(setting)},
        "code_version": code_version(),
        "policy_version": policy_version(setting.policy),
        # Where nothing is trained it makes no difference.
        "device": device if setting.measure == "training" else "cpu",
    }


def key_of(request: Request) -> str:
    """Equal exactly for equal requests: 64 hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()


def work(request: Request) -> Report:
    """Run a cell; whatever goes wrong in it is one line of the report."""
    with _one_at_a_time:
        began = time.perf_counter()
        outputs = error = None
        try:
            outputs = _outputs(request)
        except StagewiseError as mistake:
            error = one_line(str(mistake))
        except MemoryError:
            error = "not enough memory"
        except Exception as failure:
            error = _with_place(failure)
        return {
            "outputs": outputs,
            "error": error,
            "seconds": time.perf_counter() - began,
            "machine": msgspec.to_builtins(this_machine(request["device"])),
        }


def _outputs(request: Request) -> dict[str, Any]:
    if request["code_version"] != code_version():
        raise StagewiseError(
            f"the worker's code version is {code_version()}, not {request['code_version']}: "
            "install there the same stagewise as here"
        )
    setting = make_setting(request["setting"], "cell")
    if request["policy_version"] != policy_version(setting.policy):
        raise StagewiseError(
            f"policy {setting.policy}: the worker must have the same version of its package as here"
        )
    for name, expected in request["data"].items():
        found = fingerprint(name)
        if found != expected:
            problem = "not found" if found == MISSING else "not that of the machine that asks"
            raise StagewiseError(f"{name}: {problem}: workers must have the same data as it")
    from stagewise_experiments.measures import run_cell

    folder = Path(request["decisions"]) if "decisions" in request else None
    # What comes from a worker and what was kept are to be the same to the last digit.
    outputs: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode(run_cell(setting, request["device"], folder))
    )
    return outputs


def _with_place(failure: Exception) -> str:
    """An error of ours in one line, with the place it came from."""
    last = traceback.extract_tb(failure.__traceback__)[-1]
    place = f"{last.filename.rpartition('/')[2]}, line {last.lineno}"
    return one_line(f"{type(failure).__name__}: {failure} ({place})")
