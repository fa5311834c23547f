"""Write docs/coverage.md from what `make coverage` measured.

`python benchmarks/coverage_page.py coverage.json` reads coverage.py's own report. What is said of a
module stands in the page between runs: it is kept as long as the module is in the table.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
LEAST = 20
HEAD = """# Which lines the tests run

Written by `make coverage`: lines and branches that tests run with few random cases each, in processes
that they start, too, unless these are killed. Compiled functions are not counted: machine code has no
lines, and tests compare it with brute force and second implementations. What the least covered modules
lack, and why, is written by hand and kept.
"""

Figures = dict[str, float]


def main() -> None:
    files = {
        path.removeprefix("src/"): entry["summary"]
        for path, entry in json.loads(Path(sys.argv[1]).read_text())["files"].items()
    }
    said = notes(PAGE.read_text() if PAGE.exists() else "")
    PAGE.write_text("\n".join([HEAD, *by_part(files), "", *least_covered(files, said), ""]))
    print(f"{PAGE}: {share([*files.values()]):.1%} of lines and branches")


def share(figures: list[Figures]) -> float:
    """Of lines and branches together, as coverage.py counts them."""
    possible = sum(one["num_statements"] + one["num_branches"] for one in figures)
    done = sum(one["covered_lines"] + one["covered_branches"] for one in figures)
    return done / possible if possible else 1.0


def by_part(files: dict[str, Figures]) -> list[str]:
    parts: dict[str, list[Figures]] = defaultdict(list)
    for path, figures in files.items():
        package, *within = path.split("/")
        parts[f"{package}/{within[0]}" if len(within) > 1 else package].append(figures)
    parts["**all**"] = [*files.values()]
    rows = ["| part | modules | lines | covered |", "|---|---:|---:|---:|"]
    for part, figures in sorted(parts.items()):
        lines = sum(one["num_statements"] for one in figures)
        rows.append(f"| {part} | {len(figures)} | {lines:,} | {share(figures):.1%} |")
    return rows


def least_covered(files: dict[str, Figures], said: dict[str, str]) -> list[str]:
    rows = [
        f"## The {LEAST} least covered modules",
        "",
        "| module | lines | covered | what is left out, and why |",
        "|---|---:|---:|---|",
    ]
    for path in sorted(files, key=lambda path: share([files[path]]))[:LEAST]:
        lines, covered = files[path]["num_statements"], share([files[path]])
        rows.append(f"| `{path}` | {lines} | {covered:.1%} | {said.get(path, '')} |")
    return rows


def notes(page: str) -> dict[str, str]:
    """What the page says of modules by now."""
    return dict(re.findall(r"^\| `([^`]+)` \|[^|]*\|[^|]*\| (.*) \|$", page, re.MULTILINE))


if __name__ == "__main__":
    main()
