"""Stagewise: who trains in each round of hierarchical federated learning, and at which edge.

scenario = stagewise.load_scenario("s.json")
plan = stagewise.plan(scenario)              # Plan A: who will probably be there
decision = plan.decide(online)               # Plan B: who stands in for the absent
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stagewise.comparison import compare as compare
    from stagewise.decisions import Decision as Decision
    from stagewise.decisions import save_decisions as save_decisions
    from stagewise.errors import StagewiseError as StagewiseError
    from stagewise.plan_a.planners import plan as plan
    from stagewise.plans import Plan as Plan
    from stagewise.plans import load_plan as load_plan
    from stagewise.plans import save_plan as save_plan
    from stagewise.policy import Policy as Policy
    from stagewise.policy import solve as solve
    from stagewise.replanning import Replanner as Replanner
    from stagewise.replanning import Triggers as Triggers
    from stagewise.simulator.start import simulate as simulate
    from stagewise.world import generate as generate
    from stagewise.world import participation as participation
    from stagewise.world.estimator import ParticipationEstimator as ParticipationEstimator
    from stagewise.world.rounds import Round as Round
    from stagewise.world.rounds import load_rounds as load_rounds
    from stagewise.world.rounds import save_rounds as save_rounds
    from stagewise.world.scenario import Scenario as Scenario
    from stagewise.world.scenario_file import load_scenario as load_scenario
    from stagewise.world.scenario_file import save_scenario as save_scenario

# Names are imported when they are first used: the command line answers --help without NumPy.
_HOME = {
    "Decision": "stagewise.decisions",
    "ParticipationEstimator": "stagewise.world.estimator",
    "Plan": "stagewise.plans",
    "Policy": "stagewise.policy",
    "Replanner": "stagewise.replanning",
    "Round": "stagewise.world.rounds",
    "Scenario": "stagewise.world.scenario",
    "StagewiseError": "stagewise.errors",
    "Triggers": "stagewise.replanning",
    "compare": "stagewise.comparison",
    "generate": "stagewise.world",
    "load_plan": "stagewise.plans",
    "load_rounds": "stagewise.world.rounds",
    "load_scenario": "stagewise.world.scenario_file",
    "participation": "stagewise.world",
    "plan": "stagewise.plan_a.planners",
    "save_decisions": "stagewise.decisions",
    "save_plan": "stagewise.plans",
    "save_rounds": "stagewise.world.rounds",
    "save_scenario": "stagewise.world.scenario_file",
    "simulate": "stagewise.simulator.start",
    "solve": "stagewise.policy",
}
_SUBMODULES = ("generate", "participation")

__all__ = list(_HOME)
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'stagewise' has no attribute {name!r}")
    if name in _SUBMODULES:
        return import_module(f"{_HOME[name]}.{name}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
