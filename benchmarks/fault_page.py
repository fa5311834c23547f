"""Write docs/faults.md from what `make faults` saw.

`python benchmarks/fault_page.py FOLDER` reads the test runner's own report, FOLDER/tests.xml, and what
`deploy_faults.py` recorded, FOLDER/moments.json. Exit status 1 if anything did not happen as it must.
"""

import json
import sys
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "faults.md"
HEAD = """# What happens when something fails

Written by `make faults`, which injects every fault below and says what happened: first into single parts
and whole sites (tests marked `fault`), then at random moments into one run. [deploy.md](deploy.md) and
[robustness.md](robustness.md) say how it works.
"""


def main() -> int:
    folder = Path(sys.argv[1])
    rows, states = table(ET.parse(folder / "tests.xml").getroot())
    moments, good = run_with_faults(json.loads((folder / "moments.json").read_text()))
    PAGE.write_text("\n".join([HEAD, *rows, "", *moments, ""]))
    print("\n".join([*rows, "", *moments]))
    good = good and states["passed"] > 0 and not states["failed"]
    verdict = "as it must be" if good else "NOT as it must be"
    print(f"{PAGE}: {verdict}; {states['skipped']} cases were not run")
    return 0 if good else 1


def table(report: ET.Element) -> tuple[list[str], Counter[str]]:
    """A row for each fault: what must happen, in how many cases it did, and what was seen.

    Also how many cases passed, failed and were skipped.
    """
    cases, all_states = defaultdict(list), Counter[str]()
    for case in report.iter("testcase"):
        said: dict[str, str] = {
            p.get("name", ""): p.get("value", "") for p in case.iter("property")
        }
        failed = case.find("failure") is not None or case.find("error") is not None
        state = "failed" if failed else "skipped" if case.find("skipped") is not None else "passed"
        all_states[state] += 1
        if "fault" in said:  # a module that could not be read has none
            cases[said["fault"], said["must"]].append((state, said.get("seen", "")))
    rows = ["| fault | what must happen | cases | seen |", "|---|---|---|---|"]
    for (fault, must), found in sorted(cases.items()):
        states = [state for state, _ in found]
        verdict = ", ".join(
            f"{states.count(state)} {word}"
            for state, word in (("passed", "as it must"), ("failed", "NOT"), ("skipped", "not run"))
            if state in states
        )
        seen = "; ".join(dict.fromkeys(text for _, text in found if text))
        rows.append(f"| {fault} | {must} | {verdict} | {seen} |")
    return rows, all_states


def run_with_faults(record: dict[str, object]) -> tuple[list[str], bool]:
    """What became of one run in which processes of every kind were killed and paused."""
    faults, fates, verdict = record["faults"], record["fates"], record["verdict"]
    assert isinstance(faults, dict) and isinstance(fates, dict) and isinstance(verdict, dict)
    lines = [
        "## At random moments",
        "",
        f"{record['clients']} clients, {record['edges']} edges, {record['rounds']} rounds, "
        f"{sum(faults.values())} faults in {record['seconds']} s: "
        + ", ".join(f"{fault} ({count})" for fault, count in faults.items())
        + ".",
        "",
        *(f"- {'Yes' if true else '**No**'}: {what}." for what, true in verdict.items()),
        "- Updates: " + ", ".join(f"{count} {fate}" for fate, count in fates.items()) + ".",
    ]
    return lines, all(verdict.values())


if __name__ == "__main__":
    sys.exit(main())
