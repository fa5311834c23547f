"""`{licences}`: what we ask for of others, for what, and under which licence, by their own metadata."""

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

from sources import Generated

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
US = "stagewise-hfl"


class Licences(Generated):
    def markdown(self) -> str:
        lines = ["| package | for | licence |", "|---|---|---|"]
        for name, uses in asked_for(PROJECT).items():
            lines.append(f"| {name} | {', '.join(f'`{use}`' if use else 'all' for use in uses)} "
                         f"| {licence(name)} |")  # fmt: skip
        return "\n".join(lines)


def asked_for(project: Path) -> dict[str, list[str]]:
    """Each package that we ask for, with the extras that do; an empty name is the library itself."""
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    lists = {"": declared["dependencies"], **declared["optional-dependencies"]}
    found: dict[str, list[str]] = {}
    for extra, requirements in lists.items():
        for requirement in requirements:
            name = re.match(r"[\w.-]+", requirement)[0]
            if name != US:
                found.setdefault(name, []).append(extra)
    return found


def licence(name: str) -> str:
    """What the installed package says of its licence, in a few words."""
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return "not installed where this page was made"
    classified = [
        line.rpartition(" :: ")[2]
        for line in told.get_all("Classifier", [])
        if line.startswith("License ::")
    ]
    text = told.get("License-Expression") or ", ".join(classified) or told.get("License") or ""
    return text.partition("\n")[0].strip() or "says nothing"


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("licences", Licences)
    return {"parallel_read_safe": True}
