"""`stagewise doctor`: what is installed, what is missing for what, and what is compiled already.

What Stagewise needs is imported only once it is known to be there.
"""

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from stagewise.cores import available_cores
from stagewise.diagnosis import Finding

DISTRIBUTION = "stagewise-hfl"

PURPOSES = {
    "simulate": "training, reports, experiments",
    "cluster": "experiments on a Dask cluster",
    "deploy": "real processes on Flower",
    "serve": "the service and its page",
    "postgresql": "the service on PostgreSQL",
    "traces": "spans of the service for OpenTelemetry",
    "tensorboard": "logs for TensorBoard",
    "mlflow": "logs for MLflow",
}
"""What each extra is needed for."""

_REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[([\w,-]+)\])?[^;]*(?:;.*extra == ['\"]([\w-]+)['\"])?")


def examine(data_dir: str | Path | None = None) -> list[Finding]:
    """Everything that can be seen without running anything."""
    findings = [
        Finding("stagewise", "ok", version(DISTRIBUTION)),
        Finding("python", "ok", f"{platform.python_version()}, {platform.platform()}"),
        Finding("cores", "ok", str(available_cores())),
        *_packages(requires(DISTRIBUTION) or []),
    ]
    if any(finding.verdict == "problem" for finding in findings):
        return findings
    return [*findings, _data_sets(data_dir), *_compiled_code()]


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
    installed, missing = _installed(needed.get("", []))
    if missing:
        text = f"missing: {', '.join(missing)}: pip install {DISTRIBUTION}"
        yield Finding("core", "problem", text)
    else:
        yield Finding("core", "ok", ", ".join(installed))
    for extra, purpose in PURPOSES.items():
        installed, missing = _installed(needed.get(extra, []))
        if missing:
            text = f"missing: {', '.join(missing)}: pip install '{DISTRIBUTION}[{extra}]'"
            yield Finding(f"{extra}: {purpose}", "optional", text)
        else:
            yield Finding(f"{extra}: {purpose}", "ok", ", ".join(installed))


def _installed(packages: list[str]) -> tuple[list[str], list[str]]:
    """Those that are, with their versions, and those that are not."""
    installed, missing = [], []
    for package in packages:
        try:
            installed.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    return installed, missing


def _data_sets(data_dir: str | Path | None) -> Finding:
    from stagewise.datasets import available

    findings = available(data_dir)
    names = [finding.name for finding in findings if finding.found]
    lacking = len(findings) - len(names)
    rest = f"; {lacking} others are not: see stagewise data" if lacking else ""
    found = ", ".join(names) or "none"
    return Finding("data sets", "ok" if names else "optional", f"found: {found}{rest}")


def _compiled_code() -> Iterator[Finding]:
    from stagewise.compiled_parts import PARTS
    from stagewise.loading import code_folder, is_compiled

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
