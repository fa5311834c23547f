"""Plan A alone: how long it takes, and what it comes up with."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import stagewise
from stagewise import Plan, Scenario
from stagewise_experiments.measures.preparation import prepare_plans
from stagewise_experiments.measures.scenarios import make_scenario
from stagewise_experiments.setting import Setting


def measure_planning(setting: Setting) -> dict[str, Any]:
    """The plan's figures."""
    plan = make_plan(setting, make_scenario(setting))
    return {
        "plan_ms": plan.plan_ms,
        "objective": plan.objective,
        "feasible": plan.feasible,
        "clients": len(plan.assignment),
    }


def make_plan(setting: Setting, scenario: Scenario) -> Plan:
    """The cell's plan, made on one thread with all that it calls compiled."""
    prepare_plans()
    with ThreadPoolExecutor(1) as executor:
        return stagewise.plan(
            scenario,
            method=setting.policy,
            risk=setting.risk or "exact",
            seed=setting.seed,
            executor=executor,
        )
