"""Policies by name: ours, and those that installed packages declare under `stagewise.policies`.

A selector and an associator with a plus between them are a policy too: `oort+nearest`. Behind any
policy may stand `+label-weights`: its clients are then weighted as `LabelWeighted` does.
"""

from functools import partial
from inspect import signature
from typing import Any

from stagewise.errors import StagewiseError, shown
from stagewise.loading import load
from stagewise.plans import Plan
from stagewise.plug_ins import load_named, names_in
from stagewise.policies.compose import Compose
from stagewise.policies.label_weighted import LabelWeighted
from stagewise.policies.policy import Policy, PolicyFactory, wrapped_in
from stagewise.progress import ProgressCallback, ignore_progress
from stagewise.selection.catalogue import (
    LABEL_WEIGHTS,
    METHODS_THAT_ASSOCIATE,
    component_factory,
    make_associator,
    make_selector,
    parts_of,
    selector_names,
)
from stagewise.warm_up import load_search
from stagewise.world.checks import finite, instance_of, seed_number
from stagewise.world.scenario import Scenario

ENTRY_POINTS = "stagewise.policies"

ALIASES = {"pool": "pool-flexible"}
"""Shorter names, known wherever a policy is named."""

_BUILT_IN = {
    "stagewise-paper": "stagewise.policies.plan_policy:stagewise_paper",
    "stagewise-paper-flexible": "stagewise.policies.plan_policy:stagewise_paper_flexible",
    "stagewise-strict": "stagewise.policies.plan_policy:stagewise_strict",
    "stagewise-flexible": "stagewise.policies.plan_policy:stagewise_flexible",
    "pool-strict": "stagewise.policies.plan_policy:pool_strict",
    "pool-flexible": "stagewise.policies.plan_policy:pool_flexible",
    "pool-balanced": "stagewise.policies.label_balanced:pool_balanced",
    "pool-to-target": "stagewise.policies.label_weighted:pool_to_target",
    "orig-prob-solver": "stagewise.policies.paper_benchmarks:orig_prob_solver",
    "kld-minimization": "stagewise.policies.paper_benchmarks:kld_minimization",
    "client-sel-only": "stagewise.policies.paper_benchmarks:client_sel_only",
    "c2e-assoc-only": "stagewise.policies.paper_benchmarks:c2e_assoc_only",
    "c2e-greedy-assoc": "stagewise.policies.paper_benchmarks:c2e_greedy_assoc",
    "fedcs": "stagewise.policies.paper_benchmarks:fedcs",
    "local-search": "stagewise.policies.local_search:local_search_policy",
    "exact": "stagewise.policies.exact:exact_policy",
}

_ELSEWHERE = {"service": "stagewise.client.federation:federation_factory"}

PolicyLike = str | Policy | PolicyFactory
"""A name, a policy, or a function that makes one for a scenario."""


def policy_names() -> list[str]:
    """The names of all policies: our own first, then those of installed packages.

    A selector's name stands for it with `least-delay`; any other associator may follow a plus. So may
    `label-weights`, last, behind any name.

    Examples
    --------
    >>> import stagewise
    >>> "pool-flexible" in stagewise.policy_names()
    True
    """
    return names_in([*_BUILT_IN, *METHODS_THAT_ASSOCIATE, *selector_names()], ENTRY_POINTS)


def policy_name(policy: PolicyLike) -> str:
    """What decisions and runs call `policy`."""
    if isinstance(policy, str):
        base = policy.removesuffix(LABEL_WEIGHTS)
        return ALIASES.get(base, base) + policy[len(base) :]
    if isinstance(policy, Policy):
        return policy.title
    return str(getattr(policy, "__name__", type(policy).__name__))


def policy_factory(name: str) -> PolicyFactory:
    """The factory of the policy called `name`; behind a colon may stand how a method is read."""
    name = policy_name(name)
    if "://" in name:  # a service's
        factory_at = load_named("method", "service", _ELSEWHERE, ENTRY_POINTS)
        made: PolicyFactory = factory_at(name)
        return made
    unweighted = name.removesuffix(LABEL_WEIGHTS)
    if LABEL_WEIGHTS in unweighted:
        raise StagewiseError(f"method = {shown(name)}: +label-weights must stand last, and once")
    if unweighted != name:
        return wrapped_in(LabelWeighted, policy_factory(unweighted))
    base, _, reading = name.partition(":")
    if reading and base in policy_names():
        read: Any = policy_factory(base)
        if "reading" not in signature(read).parameters:
            raise StagewiseError(f"method = {shown(name)}: {base} has no readings")
        return partial(read, reading=reading)
    factory: PolicyFactory | None = load_named("method", name, _BUILT_IN, ENTRY_POINTS)
    if factory is not None:
        return factory
    parts = parts_of(name)
    if parts is not None:
        return _composed(*parts)
    raise StagewiseError(f"method = {shown(name)}: must be one of {', '.join(policy_names())}")


def _composed(selector: str, associator: str) -> PolicyFactory:
    # Made once the scenario is known, but what is wrong with the names is said at once.
    component_factory("selector", selector)
    component_factory("associator", associator)

    def make(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
        return Compose(
            make_selector(selector, scenario, seed, seconds),
            make_associator(associator, scenario, seed, seconds),
        )

    return make


def _made_by_name(
    name: str,
    scenario: Scenario,
    seed: int,
    seconds: float | None,
    plan: Plan | None,
    progress: ProgressCallback,
) -> Policy:
    factory: Any = policy_factory(name)
    taken = signature(factory).parameters
    more: dict[str, Any] = {"progress": progress} if "progress" in taken else {}
    if plan is not None and "plan" in taken:
        more["plan"] = plan
    policy: Policy = factory(scenario, seed=seed, seconds=seconds, **more)
    if plan is not None and "plan" not in more:
        policy.follow(plan)
    return policy


def make_policy(
    policy: PolicyLike,
    scenario: Scenario,
    seed: int = 0,
    seconds: float | None = None,
    plan: Plan | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Policy:
    """The policy of that name, or by that factory, or the policy itself; ready to decide.

    Parameters
    ----------
    policy : str, Policy or function
        A name of `stagewise methods`, a policy, or a function of a scenario, `seed` and `seconds`.
    scenario : Scenario
        The system it is to decide for.
    seed : int
        Of every random draw.
    seconds : float, optional
        The time that one decision may take.
    plan : Plan, optional
        The one to follow, for a policy that follows one; by default it makes its own.
    progress : function, optional
        Called now and then, by a policy that plans, with the share of its plan that is done.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> stagewise.make_policy("fedcs", scenario).name
    'fedcs'
    """
    instance_of("scenario", scenario, Scenario)
    seed_number(seed)
    if seconds is not None:
        finite("seconds", seconds, 0, open_below=True)
    made: object = policy
    if isinstance(policy, str):
        made = _made_by_name(policy, scenario, seed, seconds, plan, progress)
    elif callable(policy) and not isinstance(policy, Policy):
        try:
            signature(policy).bind(scenario, seed=seed, seconds=seconds)
        except (TypeError, ValueError):
            raise StagewiseError(
                f"policy = {shown(policy)}: must be a policy, or be called with a scenario, seed and "
                f"seconds to make one"
            ) from None
        made = policy(scenario, seed=seed, seconds=seconds)
    elif not hasattr(policy, "decide"):
        raise StagewiseError(
            f"policy = {shown(policy)}: must be a name, a policy, or a function that makes one"
        )
    if not isinstance(made, Policy):
        raise StagewiseError(f"policy = {shown(made)}: must be a stagewise.Policy")
    if isinstance(policy, str) or not made.name:
        made.name = policy_name(policy)
    load(load_search)  # last: a policy that plans has compiled it beside other parts
    return made
