"""A run small enough to be repeated many times: twelve clients, two edges, 8 x 8 digits."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stagewise.runs import session
from stagewise.runs.config import Replanning
from stagewise.runs.run import Run
from stagewise.simulator.start import simulate
from stagewise.world.generate import Task, numeric
from stagewise.world.scenario import Limits, Scenario

TIMINGS = {"decision_ms", "wall_s", "plan_ms"}
OF_TIMINGS = {"lines", "previous"}
"""In `chain.jsonl`: digests of lines with timings in them."""
TASK = Task("digits", 10, (2, 5), (20, 40), sample_bits=512, model_bits=77_120)
LIMITS = Limits(kld_max=0.9, data_min=60, kld_risk=0.6, data_risk=0.6)


def small_scenario(seed: int = 0) -> Scenario:
    return numeric(12, 2, seed, task=TASK, limits=LIMITS)


def small_run(out: Path | None = None, **options: Any) -> Run:
    """Eight rounds under a policy that plans again every third round."""
    defaults: dict[str, Any] = {
        "dataset": "digits",
        "policy": "stagewise-strict",
        "rounds": 8,
        "seed": 3,
        "model": "mlp",
        "replanning": Replanning(every=3, delay_rounds=2),
    }
    return simulate(small_scenario(), out=out, **(defaults | options))


class Stopped(Exception):
    """Thrown where a run is to stop."""


def stopped_after(
    count: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    start: Callable[..., Run] = small_run,
    **options: Any,
) -> None:
    """A run whose process ends after so many rounds."""

    def run_some(*arguments: Any) -> Iterator[Any]:
        for number, played in enumerate(run_all(*arguments)):
            if number == count:
                raise Stopped
            yield played

    run_all = session.run_rounds
    with monkeypatch.context() as patch:
        patch.setattr(session, "run_rounds", run_some)
        with pytest.raises(Stopped):
            start(folder, **options)


def contents(folder: Path) -> dict[str, Any]:
    """Every file of a run byte for byte, but for timings in files of JSON."""
    return {
        str(path.relative_to(folder)): _content(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _content(path: Path) -> Any:
    raw = path.read_bytes()
    if path.suffix not in (".json", ".jsonl"):
        return raw
    text = raw.decode()
    parts = [text] if path.suffix == ".json" else text.splitlines()
    return [_without_timings(json.loads(part)) for part in parts]


def _without_timings(record: Any) -> Any:
    if not isinstance(record, dict):
        return record
    return {name: value for name, value in record.items() if name not in TIMINGS | OF_TIMINGS}
