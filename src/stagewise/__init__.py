"""Stagewise: who trains in each round of hierarchical federated learning, and at which edge.

Examples
--------
>>> import stagewise
>>> scenario = stagewise.generate.numeric(clients=93, edges=4, seed=0)
>>> plan = stagewise.plan(scenario)  # Plan A: who will probably be there
>>> rounds = stagewise.participation.bernoulli(scenario, rounds=3, seed=1)
>>> decisions = stagewise.decide(plan, rounds)  # Plan B: who stands in for the absent
>>> all(decision.feasible for decision in decisions)
True
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from stagewise.checker import check as check
    from stagewise.checker import check_plan as check_plan
    from stagewise.comparison import compare as compare
    from stagewise.datasets import Dataset as Dataset
    from stagewise.datasets import load_dataset as load_dataset
    from stagewise.deciding import decide as decide
    from stagewise.deciding import solve as solve
    from stagewise.decisions import Answer as Answer
    from stagewise.decisions import Decision as Decision
    from stagewise.decisions import load_decisions as load_decisions
    from stagewise.decisions import save_decisions as save_decisions
    from stagewise.errors import StagewiseError as StagewiseError
    from stagewise.loop import run_rounds as run_rounds
    from stagewise.outcomes import Outcome as Outcome
    from stagewise.plan_a.planners import plan as plan
    from stagewise.plans import Plan as Plan
    from stagewise.plans import load_plan as load_plan
    from stagewise.plans import save_plan as save_plan
    from stagewise.policies.diverse import Diverse as Diverse
    from stagewise.policies.plan_policy import PlanPolicy as PlanPolicy
    from stagewise.policies.policy import Policy as Policy
    from stagewise.policies.proven import Proven as Proven
    from stagewise.policies.registry import make_policy as make_policy
    from stagewise.policies.registry import policy_names as policy_names
    from stagewise.policies.remedied import Remedied as Remedied
    from stagewise.policies.replanned import Replanned as Replanned
    from stagewise.policies.replanned import Triggers as Triggers
    from stagewise.runs.config import Participation as Participation
    from stagewise.runs.config import Replanning as Replanning
    from stagewise.runs.run import Run as Run
    from stagewise.runs.run import load_run as load_run
    from stagewise.simulator.start import resume as resume
    from stagewise.simulator.start import simulate as simulate
    from stagewise.versions import show_versions as show_versions
    from stagewise.world import generate as generate
    from stagewise.world import participation as participation
    from stagewise.world.rounds import Round as Round
    from stagewise.world.rounds_file import load_rounds as load_rounds
    from stagewise.world.rounds_file import save_rounds as save_rounds
    from stagewise.world.scenario import Clients as Clients
    from stagewise.world.scenario import Edges as Edges
    from stagewise.world.scenario import Limits as Limits
    from stagewise.world.scenario import Links as Links
    from stagewise.world.scenario import Scenario as Scenario
    from stagewise.world.scenario import Weights as Weights
    from stagewise.world.scenario_file import load_scenario as load_scenario
    from stagewise.world.scenario_file import save_scenario as save_scenario
    from stagewise.world.trace import load_trace as load_trace

# Names are imported when they are first used: the command line answers --help without NumPy.
_HOME = {
    "Answer": "decisions",
    "Clients": "world.scenario",
    "Dataset": "datasets",
    "Decision": "decisions",
    "Diverse": "policies.diverse",
    "Edges": "world.scenario",
    "Limits": "world.scenario",
    "Links": "world.scenario",
    "Outcome": "outcomes",
    "Participation": "runs.config",
    "Plan": "plans",
    "PlanPolicy": "policies.plan_policy",
    "Policy": "policies.policy",
    "Proven": "policies.proven",
    "Remedied": "policies.remedied",
    "Replanned": "policies.replanned",
    "Replanning": "runs.config",
    "Round": "world.rounds",
    "Run": "runs.run",
    "Scenario": "world.scenario",
    "StagewiseError": "errors",
    "Triggers": "policies.replanned",
    "Weights": "world.scenario",
    "check": "checker",
    "check_plan": "checker",
    "compare": "comparison",
    "decide": "deciding",
    "generate": "world.generate",
    "load_dataset": "datasets",
    "load_decisions": "decisions",
    "load_plan": "plans",
    "load_rounds": "world.rounds_file",
    "load_run": "runs.run",
    "load_scenario": "world.scenario_file",
    "load_trace": "world.trace",
    "make_policy": "policies.registry",
    "participation": "world.participation",
    "plan": "plan_a.planners",
    "policy_names": "policies.registry",
    "resume": "simulator.start",
    "run_rounds": "loop",
    "save_decisions": "decisions",
    "save_plan": "plans",
    "save_rounds": "world.rounds_file",
    "save_scenario": "world.scenario_file",
    "show_versions": "versions",
    "simulate": "simulator.start",
    "solve": "deciding",
}
_MODULES = ("generate", "participation")

__all__ = list(_HOME)
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'stagewise' has no attribute {name!r}")
    home = _importlib.import_module(f"stagewise.{_HOME[name]}")
    found: object = home if name in _MODULES else getattr(home, name)
    # Kept, so that `stagewise.checker` stays the function when its module is imported.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*_HOME, "__version__"]
