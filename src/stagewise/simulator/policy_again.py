"""A run's policy as it was when the run began, from what the run's folder keeps of it."""

from dataclasses import fields

from stagewise.errors import StagewiseError, shown
from stagewise.methods.stagewise import StagewisePolicy
from stagewise.policy import Policy
from stagewise.simulator.config import RunConfig
from stagewise.simulator.decider import make_policy
from stagewise.simulator.directory import CONFIG, RunDirectory
from stagewise.world.scenario import Scenario


def plan_b(policy: Policy) -> dict[str, str | float] | None:
    """What a policy that follows a plan was made with, the plan apart; None of any other."""
    if not isinstance(policy, StagewisePolicy):
        return None
    return {
        field.name: getattr(policy, field.name)
        for field in fields(StagewisePolicy)
        if field.init and field.name != "plan"
    }


def policy_again(directory: RunDirectory, config: RunConfig, world: Scenario) -> Policy:
    """The policy that the run began with: its plan where it has one, or made anew by its name."""
    plan = directory.plan(world)
    if plan is None or config.plan_b is None:
        return make_policy(config.policy, world, config.seed)
    try:
        return StagewisePolicy(plan, **config.plan_b)  # type: ignore[arg-type]
    except TypeError:
        raise StagewiseError(
            f"{directory.path / CONFIG}: plan_b = {shown(config.plan_b)}: must be as it was when the "
            f"run began"
        ) from None
