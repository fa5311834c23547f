"""What a policy decides, round after round, without any training."""

import math
from contextlib import closing
from pathlib import Path
from typing import Any

from stagewise import Decision
from stagewise_experiments.measures.decided import DecidedRounds
from stagewise_experiments.measures.scenarios import make_rounds
from stagewise_experiments.setting import Setting


def measure_decisions(setting: Setting, folder: Path | None = None) -> dict[str, Any]:
    """The figures of every round's decision, and the time of the first plan where there is one."""
    with closing(DecidedRounds(setting, *make_rounds(setting), folder)) as decided:
        decisions = decided.decisions()
        plan_ms = decided.plan_ms(1)
    return {
        "rounds": [_figures(decision) for decision in decisions],
        "plan_ms": plan_ms[0] if plan_ms else None,
    }


def _figures(decision: Decision) -> dict[str, Any]:
    evaluation = decision.evaluation
    divergences = evaluation.kld[evaluation.clients > 0]
    return {
        "objective": decision.objective,
        "delay_s": decision.delay_s,
        "energy_j": decision.energy_j,
        "clients": int(evaluation.clients.sum()),
        "kld": finite_or_none(divergences.mean()) if len(divergences) else None,
        "feasible": decision.feasible,
        "decision_ms": decision.decision_ms,
        "lower_bound": decision.lower_bound,
    }


def finite_or_none(value: float | None) -> float | None:
    """The number, or None for one that JSON cannot hold."""
    return None if value is None or not math.isfinite(value) else float(value)
