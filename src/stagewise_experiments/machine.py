"""What the cells ran on: the machine and the versions that a reader of timings must know."""

import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from stagewise.cores import available_cores

_PACKAGES = ("stagewise-hfl", "numpy", "scipy", "numba", "scikit-learn", "torch")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine without its name."""

    cpu: str
    cores: int
    """That this process may use."""
    memory_gb: float | None
    system: str
    python: str
    packages: dict[str, str]
    """Name to version."""
    accelerator: str = ""
    """The GPU, where cells trained on one."""


@cache
def this_machine(device: str = "cpu") -> Machine:
    """The machine this process runs on."""
    return Machine(
        cpu=_cpu(),
        cores=available_cores(),
        memory_gb=_memory_gb(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        packages={name: found for name in _PACKAGES if (found := _version(name))},
        accelerator=_accelerator(device),
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    return round(total / 1e9, 1)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _accelerator(device: str) -> str:
    torch = sys.modules.get("torch")  # whoever trained has imported it
    if torch is None or not device.startswith("cuda") or not torch.cuda.is_available():
        return ""
    return str(torch.cuda.get_device_name(device))
