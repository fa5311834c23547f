"""Cells that an older version of the code ran, and the few that are run again to tell if they hold.

A change of the code that adds a method makes every cell out of date. Most would come out as they are:
cells are run again until each method, and each setting but for method and seed, was in one. A cell is
taken if all of those that share its method or its setting came out the same, times apart.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stagewise.errors import StagewiseError
from stagewise_experiments.results import FILE, UNFINISHED, load_result, rounded
from stagewise_experiments.setting import Setting
from stagewise_experiments.worker import Report, Request, key_of

TIMES = frozenset({"decision_ms", "plan_ms"})
"""Of outputs: what another run of the same code gives otherwise."""


class OlderCell(NamedTuple):
    """What an older version gave for a request of today."""

    setting: Setting
    report: Report


class Older:
    """The reports that older results in a folder have on requests.

    Parameters
    ----------
    out : Path
        The folder of results, each of one version of the code.
    requests : mapping of str to Request
        By their keys.
    """

    def __init__(self, out: Path, requests: Mapping[str, Request]) -> None:
        self.cells: dict[str, OlderCell] = {}
        for path in (path for name in (FILE, UNFINISHED) for path in sorted(out.glob(f"*/{name}"))):
            try:
                result = load_result(path)
            except StagewiseError:
                continue
            # A key is that of today's request but for the version: data and packages are the same.
            today = {
                key_of(request | {"code_version": result.code_version}): key
                for key, request in requests.items()
            }
            machines = msgspec.to_builtins(result.machines)
            for cell in result.cells:
                if cell.outputs is None or cell.key not in today or cell.machine >= len(machines):
                    continue
                self.cells[today[cell.key]] = OlderCell(
                    cell.setting,
                    {
                        "outputs": cell.outputs,
                        "error": None,
                        "seconds": cell.seconds,
                        "machine": machines[cell.machine],
                        "code_version": cell.code_version or result.code_version,
                    },
                )

    def to_run(self) -> list[str]:
        """The keys of the cells to run again: quick ones first, each with something not yet in one."""
        seen: set[str] = set()
        chosen = []
        for key, cell in sorted(self.cells.items(), key=lambda entry: entry[1].report["seconds"]):
            traits = _traits(cell.setting)
            if not traits <= seen:
                seen |= traits
                chosen.append(key)
        return chosen

    def that_hold(self, run_again: Mapping[str, Report]) -> dict[str, Report]:
        """The reports to take, by keys, given those of the cells that ran again."""
        same: set[str] = set()
        changed: set[str] = set()
        for key, report in run_again.items():
            holds = _lasting(report["outputs"]) == _lasting(self.cells[key].report["outputs"])
            (same if holds else changed).update(_traits(self.cells[key].setting))
        return {
            key: cell.report
            for key, cell in self.cells.items()
            if key not in run_again and _traits(cell.setting) <= same - changed
        }


def _traits(setting: Setting) -> set[str]:
    """What a cell shares with others: its method, and the rest of its setting but for the seed."""
    rest = msgspec.structs.replace(setting, policy="", seed=0, training_seed=None)
    return {setting.policy, msgspec.json.encode(rest, order="deterministic").decode()}


def _lasting(outputs: Any) -> Any:
    """Outputs without times, with the digits that are kept."""
    if isinstance(outputs, dict):
        kept: Iterable[tuple[str, Any]] = outputs.items()
        return {name: _lasting(value) for name, value in kept if name not in TIMES}
    return [_lasting(value) for value in outputs] if isinstance(outputs, list) else rounded(outputs)
