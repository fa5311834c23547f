"""Rounds decided without training: from a plan, or by any policy."""

from collections.abc import Callable
from contextlib import closing

from stagewise.decisions import Decision
from stagewise.loop import NoTraining, run_rounds
from stagewise.plans import Plan
from stagewise.policies.diverse import Diverse
from stagewise.policies.plan_policy import PlanPolicy
from stagewise.policies.policy import Policy
from stagewise.policies.proven import Proven
from stagewise.policies.registry import PolicyLike, make_policy
from stagewise.policies.remedied import Remedied, Remedy
from stagewise.policies.replanned import PlanStore, Replanned, Triggers
from stagewise.problem.statement import Mode
from stagewise.world.checks import finite
from stagewise.world.forecasts import ROUND_SECONDS
from stagewise.world.rounds import OnlineRounds, numbered
from stagewise.world.scenario import Scenario

Progress = Callable[[Decision], None]


def decide(
    plan: Plan,
    rounds: OnlineRounds,
    *,
    mode: Mode = "flexible",
    method: str | None = None,
    remedy: Remedy | None = None,
    diversity: float = 0.0,
    replanning: Triggers | None = None,
    seconds: float | None = None,
    prove: bool = False,
    progress: Progress | None = None,
) -> list[Decision]:
    """Plan B: decide round after round from a plan.

    Parameters
    ----------
    plan : Plan
        Who serves where in the long term.
    rounds : iterable of Round
        Or of who is online in each: a mask over the clients, or ids.
    mode : {"flexible", "strict"}
        `strict` keeps (12d): every online long-term client trains at its edge. `flexible` may leave a
        surplus one out.
    method : {"ccu", "repair", "pool"}, optional
        How absent clients are replaced; by default as goes with the plan's method.
    remedy : {"drop", "reweight", "lend"}, optional
        What to do where a round cannot be made feasible.
    diversity : float
        How much more a client costs for having served.
    replanning : Triggers, optional
        When Plan A is to run again.
    seconds : float, optional
        The time that one decision may take.
    prove : bool
        Whether `exact` is to settle the rounds that stay infeasible: see `Proven`.
    progress : function, optional
        Called with every decision.

    Returns
    -------
    list of Decision
        One for each round.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=93, edges=4, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=3, seed=1)
    >>> decisions = stagewise.decide(stagewise.plan(scenario), rounds)
    >>> [decision.feasible for decision in decisions]
    [True, True, True]
    """
    policy = wrapped(
        PlanPolicy(plan, method, mode, seconds),
        prove=prove,
        remedy=remedy,
        diversity=diversity,
        replanning=replanning,
    )
    with closing(policy):
        played = run_rounds(policy, numbered(plan.scenario, rounds), NoTraining(progress))
        return [decided.decision for decided in played]


def solve(
    scenario: Scenario,
    rounds: OnlineRounds,
    method: PolicyLike = "local-search",
    *,
    seed: int = 0,
    seconds: float | None = None,
    prove: bool = False,
    progress: Progress | None = None,
) -> list[Decision]:
    """Decide round after round by any policy; those without a plan solve P0 again in each.

    Parameters
    ----------
    scenario : Scenario
        The system.
    rounds : iterable of Round
        Or of who is online in each: a mask over the clients, or ids.
    method : str, Policy or function
        A name of `stagewise methods`, a policy, or a function that makes one.
    seed : int
        Of every random draw.
    seconds : float, optional
        The time that one decision may take.
    prove : bool
        Whether `exact` is to settle the rounds that stay infeasible: see `Proven`.
    progress : function, optional
        Called with every decision.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2, seed=1)
    >>> [decision.method for decision in stagewise.solve(scenario, rounds, "pool")]
    ['pool-flexible', 'pool-flexible']
    """
    policy = wrapped(make_policy(method, scenario, seed, seconds), prove=prove)
    played = run_rounds(policy, numbered(scenario, rounds), NoTraining(progress))
    return [decided.decision for decided in played]


def wrapped(
    policy: Policy,
    *,
    prove: bool = False,
    remedy: Remedy | None = None,
    diversity: float = 0.0,
    replanning: Triggers | None = None,
    delay: int = 1,
    forecast: str = "rolling",
    round_seconds: float = ROUND_SECONDS,
    store: PlanStore | None = None,
) -> Policy:
    """`policy` with what is asked for around it; a policy that lacks what is needed is an error."""
    if prove:
        policy = Proven(policy)
    if finite("diversity", diversity, 0) > 0:
        policy = Diverse(policy, diversity)
    if remedy is not None:
        policy = Remedied(policy, remedy)
    if replanning:
        policy = Replanned(
            policy,
            replanning,
            delay=delay,
            forecast=forecast,
            round_seconds=round_seconds,
            store=store,
        )
    return policy
