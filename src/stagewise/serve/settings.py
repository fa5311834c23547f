"""What a federation is asked to be, as the command line's options have it."""

from typing import Any

import msgspec

from stagewise.deciding import wrapped
from stagewise.errors import StagewiseError
from stagewise.plans import Plan
from stagewise.policies.policy import Policy
from stagewise.policies.registry import make_policy, policy_factory
from stagewise.policies.remedied import Remedy
from stagewise.policies.replanned import PlanStore, Triggers
from stagewise.problem.risk import RiskName
from stagewise.problem.statement import Mode
from stagewise.progress import ProgressCallback, ignore_progress
from stagewise.world.checks import finite, seed_number
from stagewise.world.scenario import Scenario


class FederationSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """The policy of a federation: what `solve` and `decide` take, by the same names."""

    policy: str = "pool"
    seed: int = 0
    seconds: float | None = None
    prove: bool = False
    remedy: Remedy | None = None
    diversity: float = 0.0
    replan_every: int | None = None
    replan_cost: float | None = None
    replan_change: float | None = None
    replan_absence: float | None = None

    @property
    def triggers(self) -> Triggers:
        """These settings as `Replanned` takes them."""
        return Triggers(
            self.replan_every, self.replan_cost, self.replan_change, self.replan_absence
        )

    def check(self) -> None:
        """Raise an error for whatever can be known to be wrong before the policy is made."""
        if "://" in self.policy:
            raise StagewiseError(f"policy = {self.policy!r}: must not be another service")
        policy_factory(self.policy)
        seed_number(self.seed)
        if self.seconds is not None:
            finite("seconds", self.seconds, 0, open_below=True)
        finite("diversity", self.diversity, 0)
        assert self.triggers is not None

    def make(
        self,
        scenario: Scenario,
        store: PlanStore,
        plan: Plan | None = None,
        progress: ProgressCallback = ignore_progress,
    ) -> Policy:
        """The policy, around `plan` where it has been made before."""
        return wrapped(
            make_policy(self.policy, scenario, self.seed, self.seconds, plan, progress),
            prove=self.prove,
            remedy=self.remedy,
            diversity=self.diversity,
            replanning=self.triggers,
            store=store,
        )


class PlanSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What `stagewise plan` takes."""

    method: str | None = None
    """As the plan in force was made."""
    risk: RiskName = "exact"
    seed: int = 0
    seconds: float | None = None
    online_probability: dict[str, float] = {}
    """Estimates that are newer than the scenario's, by client."""


class PolicyWords(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What a policy says of itself: the words of `stagewise.Policy`."""

    title: str
    mode: Mode
    plan_b: str | None
    takes_surcharge: bool
    uses_feedback: bool
    follows_plan: bool

    @classmethod
    def of(cls, policy: Policy) -> "PolicyWords":
        fields: dict[str, Any] = {
            name: getattr(policy, name)
            for name in ("title", "mode", "plan_b", "takes_surcharge", "uses_feedback")
        }
        return cls(**fields, follows_plan=policy.plan is not None)
