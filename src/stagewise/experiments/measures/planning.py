"""Plan A alone: how long it takes, and what it comes up with."""

from typing import Any

from stagewise.experiments.measures.decisions import prepare_plans
from stagewise.experiments.measures.worlds import make_scenario
from stagewise.experiments.setting import Setting
from stagewise.plan_a.planners import plan
from stagewise.plans import Plan
from stagewise.problem.risk import RiskName
from stagewise.replanning import InlineExecutor
from stagewise.world.scenario import Scenario


def measure_planning(setting: Setting) -> dict[str, Any]:
    """The plan's figures."""
    made = make_plan(setting, make_scenario(setting))
    return {
        "plan_ms": made.plan_ms,
        "objective": made.objective,
        "feasible": made.feasible,
        "clients": len(made.assignment),
    }


def make_plan(setting: Setting, scenario: Scenario) -> Plan:
    """The cell's plan, made on one thread with all that it calls compiled."""
    risk: RiskName = "exact" if setting.risk is None else setting.risk
    prepare_plans()
    return plan(
        scenario, method=setting.policy, risk=risk, seed=setting.seed, executor=InlineExecutor()
    )
