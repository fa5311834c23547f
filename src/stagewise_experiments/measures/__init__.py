"""What is measured in a cell: a setting in, plain numbers out."""

from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from stagewise_experiments.measures.decisions import measure_decisions
from stagewise_experiments.measures.planning import measure_planning
from stagewise_experiments.measures.risk import measure_risk
from stagewise_experiments.measures.training import measure_training
from stagewise_experiments.setting import Setting


def run_cell(setting: Setting, device: str = "cpu", folder: Path | None = None) -> dict[str, Any]:
    """The cell's outputs, ready for JSON: None where there is no finite number.

    They depend on the setting alone, timings apart, and the answers of `exact` where its time was over.
    `device` is where models are trained, `folder` has what was decided before.
    """
    # Cells share the processors; threads that wait for each other would be measured too.
    with threadpool_limits(limits=1):
        if setting.measure == "decisions":
            return measure_decisions(setting, folder)
        if setting.measure == "planning":
            return measure_planning(setting)
        if setting.measure == "risk":
            return measure_risk(setting)
        return measure_training(setting, device, folder)
