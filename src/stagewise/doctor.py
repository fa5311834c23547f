"""`stagewise doctor`: what is installed, what is missing for what, and what is compiled already."""

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from stagewise.cores import available_cores
from stagewise.datasets import available
from stagewise.diagnosis import Finding
from stagewise.loading import Part, code_folder, is_compiled, load
from stagewise.plan_b.pool import load_clusters
from stagewise.policies.exact import load_exact
from stagewise.pool.windows import load_windows
from stagewise.warm_up import load_association, load_search

DISTRIBUTION = "stagewise-hfl"

PURPOSES = {
    "simulate": "training, reports, experiments",
    "cluster": "experiments on a Dask cluster",
    "deploy": "real processes on Flower",
    "serve": "the service and its page",
    "postgresql": "the service on PostgreSQL",
    "tensorboard": "logs for TensorBoard",
    "mlflow": "logs for MLflow",
}
"""What each extra is needed for."""

PARTS: dict[str, Part] = {
    "search": load_search,
    "pool": load_clusters,
    "Algs. 2 and 3": load_association,
    "exact": load_exact,
    "more than 6 edges": load_windows,
}
"""All that is compiled before it is first used; in an order that two processes share evenly."""

_REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[([\w,-]+)\])?[^;]*(?:;.*extra == ['\"]([\w-]+)['\"])?")


def compile_all() -> None:
    """Compile whatever is not compiled yet, on all cores."""
    load(*PARTS.values())


def examine(data_dir: str | Path | None = None) -> list[Finding]:
    """Everything that can be seen without running anything."""
    return [
        Finding("stagewise", "ok", version(DISTRIBUTION)),
        Finding("python", "ok", f"{platform.python_version()}, {platform.platform()}"),
        Finding("cores", "ok", str(available_cores())),
        *_packages(requires(DISTRIBUTION) or []),
        _data_sets(data_dir),
        *_compiled_code(),
    ]


def needed_by(requirements: list[str]) -> dict[str, list[str]]:
    """The packages that each extra needs, "" for the core, as a distribution's metadata tell."""
    packages: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        assert found is not None, requirement
        name, extras, extra = found.groups()
        if name == DISTRIBUTION:
            others.setdefault(extra or "", []).extend((extras or "").split(","))
        else:
            packages.setdefault(extra or "", []).append(name)

    def closure(extra: str) -> Iterator[str]:
        yield from packages.get(extra, ())
        for other in others.get(extra, ()):
            yield from closure(other)

    return {extra: list(dict.fromkeys(closure(extra))) for extra in {**packages, **others}}


def _packages(requirements: list[str]) -> Iterator[Finding]:
    needed = needed_by(requirements)
    there, missing = _installed(needed[""])
    if missing:
        text = f"missing: {', '.join(missing)}: pip install {DISTRIBUTION}"
        yield Finding("core", "problem", text)
    else:
        yield Finding("core", "ok", ", ".join(there))
    for extra, purpose in PURPOSES.items():
        there, missing = _installed(needed[extra])
        if missing:
            text = f"missing: {', '.join(missing)}: pip install '{DISTRIBUTION}[{extra}]'"
            yield Finding(f"{extra}: {purpose}", "optional", text)
        else:
            yield Finding(f"{extra}: {purpose}", "ok", ", ".join(there))


def _installed(packages: list[str]) -> tuple[list[str], list[str]]:
    """Those that are there, with their versions, and those that are not."""
    there, missing = [], []
    for package in packages:
        try:
            there.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    return there, missing


def _data_sets(data_dir: str | Path | None) -> Finding:
    findings = available(data_dir)
    names = [finding.name for finding in findings if finding.found]
    lacking = len(findings) - len(names)
    rest = f"; {lacking} others are not: see stagewise data" if lacking else ""
    found = ", ".join(names) or "none"
    return Finding("data sets", "ok" if names else "optional", f"found: {found}{rest}")


def _compiled_code() -> Iterator[Finding]:
    folder = code_folder()
    if folder is None:
        text = "cannot be kept, so every process compiles: set XDG_CACHE_HOME to a folder of yours"
        yield Finding("compiled code", "warning", text)
        return
    ready = [name for name, part in PARTS.items() if is_compiled(part)]
    missing = [name for name in PARTS if name not in ready]
    if ready:
        yield Finding("compiled code", "ok", f"{', '.join(ready)}: in {folder}")
    if missing:
        text = f"{', '.join(missing)}: compiled at first use; now: stagewise doctor --compile"
        yield Finding("compiled code", "optional", text)
