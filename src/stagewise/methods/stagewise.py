"""The stagewise methods as policies: Plan A when the policy is made, Plan B in every round."""

from dataclasses import dataclass, field

from stagewise.plan_a.planners import plan
from stagewise.plan_b.decide import decide_assignment, prepare
from stagewise.plan_b.service import ServiceRecord
from stagewise.plans import Plan
from stagewise.policy import Policy
from stagewise.problem.statement import Mode
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray, Scenario


@dataclass(frozen=True, eq=False)
class StagewisePolicy:
    """Follows one plan."""

    plan: Plan
    method: str
    mode: Mode
    diversity: float = 0.0
    service: ServiceRecord = field(init=False)

    def __post_init__(self) -> None:
        prepare(self.method, self.plan)
        record = ServiceRecord(len(self.plan.scenario.clients), self.diversity)
        object.__setattr__(self, "service", record)

    def decide(self, round_: Round, index: int) -> IntArray:
        return decide_assignment(self.plan, round_, index, self.method, self.mode, self.service)

    def remember(self, edge_of: IntArray) -> None:
        self.service.remember(edge_of)


def stagewise_paper(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    """StagewiseHFL as the paper has it: Algs. 2 and 3, then Alg. 4."""
    return StagewisePolicy(plan(scenario, method="paper", seed=seed), "ccu", "strict")


def pool_strict(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    """The pool of clusters, with every online long-term client serving (12d)."""
    return StagewisePolicy(plan(scenario, method="pool", seed=seed), "pool", "strict")


def pool_flexible(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    """The pool of clusters, free in every round."""
    return StagewisePolicy(plan(scenario, method="pool", seed=seed), "pool", "flexible")


def stagewise_strict(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    """Our plan and our repair, with every online long-term client serving (12d)."""
    return StagewisePolicy(plan(scenario, method="local-search", seed=seed), "repair", "strict")


def stagewise_flexible(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    """Our plan and our repair, which may leave surplus long-term clients out."""
    return StagewisePolicy(plan(scenario, method="local-search", seed=seed), "repair", "flexible")
