"""Policies that follow a plan: Plan A when the policy is made, Plan B in every round."""

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, get_args

from stagewise.decisions import Answer
from stagewise.loading import load
from stagewise.plan_a.planners import plan as make_plan
from stagewise.plan_b.ccu import cluster_based_update
from stagewise.plan_b.pool import library_of, load_pool, pool
from stagewise.plan_b.repair import repair
from stagewise.plans import Plan
from stagewise.policies.policy import Policy
from stagewise.problem.statement import Mode
from stagewise.progress import ProgressCallback, ignore_progress
from stagewise.warm_up import load_association, load_search
from stagewise.world.checks import finite, instance_of, one_of
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray, Scenario

PlanB = Callable[[Plan, Round, Mode, float | None], IntArray]

PLAN_B: dict[str, PlanB] = {"ccu": cluster_based_update, "repair": repair, "pool": pool}
_FOLLOWS = {"paper": "ccu", "pool": "pool"}


class PlanPolicy(Policy):
    """Follows a plan: its long-term clients where they are there, stand-ins where they are not.

    Parameters
    ----------
    plan : Plan
        Who serves where in the long term.
    method : {"ccu", "repair", "pool"}, optional
        How absent clients are replaced (`ccu` is Alg. 4); by default as goes with the plan's method.
    mode : {"flexible", "strict"}
        `strict` keeps (12d): every online long-term client trains at its edge. `flexible` may leave a
        surplus one out.
    seconds : float, optional
        The time that one decision may take where a search is needed.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> policy = stagewise.PlanPolicy(stagewise.plan(scenario), mode="strict")
    >>> [round_] = stagewise.participation.bernoulli(scenario, rounds=1)
    >>> policy.decide(round_).edge_of.shape
    (30,)
    """

    def __init__(
        self,
        plan: Plan,
        method: str | None = None,
        mode: Mode = "flexible",
        seconds: float | None = None,
    ) -> None:
        instance_of("plan", plan, Plan)
        method = _FOLLOWS.get(plan.method.partition(":")[0], "repair") if method is None else method
        if seconds is not None:
            finite("seconds", seconds, 0, open_below=True)
        self.plan_b: str = one_of("method", method, PLAN_B)
        self.mode = one_of("mode", mode, get_args(Mode))
        self.seconds = seconds
        self.takes_surcharge = method == "pool"
        self.follow(plan)

    @property
    def title(self) -> str:
        """The name, or how absent clients are replaced."""
        return self.name or self.plan_b

    @property
    def plan(self) -> Plan:
        return self._plan

    def follow(self, plan: Plan) -> None:
        """Follow `plan`; whatever its rounds need is loaded, compiled and built now."""
        self._plan = plan
        if self.plan_b == "pool":
            load_pool(library_of(plan))
        elif self.plan_b == "ccu":
            load(load_search, load_association)
            import_module("sklearn.cluster")
        else:
            load(load_search)

    def decide(self, round_: Round) -> Answer:
        return Answer(PLAN_B[self.plan_b](self._plan, round_, self.mode, self.seconds))


def stagewise_paper(
    scenario: Scenario,
    *,
    seed: int,
    seconds: float | None,
    plan: Plan | None = None,
    reading: str = "",
    progress: ProgressCallback = ignore_progress,
) -> Policy:
    """StagewiseHFL as the paper has it: Algs. 2 and 3, in a reading of theirs, then Alg. 4."""
    method = f"paper:{reading}" if reading else "paper"
    plan = plan or make_plan(scenario, method=method, seed=seed, progress=progress)
    return PlanPolicy(plan, "ccu", "strict", seconds)


class PlannedFactory(Protocol):
    """Makes a policy that follows a plan: the one that is given, or else its own."""

    def __call__(
        self,
        scenario: Scenario,
        *,
        seed: int,
        seconds: float | None,
        plan: Plan | None = None,
        progress: ProgressCallback = ignore_progress,
    ) -> Policy: ...


def _planned(planner: str, method: str, mode: Mode) -> PlannedFactory:
    def make(
        scenario: Scenario,
        *,
        seed: int,
        seconds: float | None,
        plan: Plan | None = None,
        progress: ProgressCallback = ignore_progress,
    ) -> Policy:
        plan = plan or make_plan(scenario, method=planner, seed=seed, progress=progress)
        return PlanPolicy(plan, method, mode, seconds)

    return make


pool_flexible = _planned("pool", "pool", "flexible")
"""The pool of clusters, free in every round."""

pool_strict = _planned("pool", "pool", "strict")
"""The pool of clusters, with every online long-term client serving (12d)."""

stagewise_paper_flexible = _planned("paper", "ccu", "flexible")
"""The paper's plan and repair, which may leave surplus long-term clients out."""

stagewise_flexible = _planned("local-search", "repair", "flexible")
"""Our plan and our repair, which may leave surplus long-term clients out."""

stagewise_strict = _planned("local-search", "repair", "strict")
"""Our plan and our repair, with every online long-term client serving (12d)."""
