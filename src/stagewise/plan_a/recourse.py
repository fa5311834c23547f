"""The assignment of a pool plan: the cheapest after repair among plans within the risk limits."""

import numpy as np

from stagewise.plan_a.effort import plan_effort
from stagewise.plan_b.pool import pool
from stagewise.plans import Plan, make_plan
from stagewise.problem.statement import Problem, p0
from stagewise.randomness import generator, integer_seed
from stagewise.search.instance import build_instance
from stagewise.search.local_search import local_search
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray

_CANDIDATES = 3
_SAMPLED_ROUNDS = 24
# What a sampled round that stays infeasible counts, in units of its cost.
_INFEASIBLE = 3.0


def plan_by_recourse(problem: Problem, seed: int, seconds: float | None) -> IntArray:
    """Of several solutions of P1 the one whose rounds cost least once Plan B has repaired them.

    P1 charges a plan as if everybody were online; the redundancy it buys for bad rounds is paid for
    in good ones. So the candidates are tried, in `strict` mode, on the same sampled rounds.
    """
    assert problem.risk is not None
    scenario, probability = problem.scenario, problem.scenario.clients.online_probability
    rng = generator(seed, "recourse")
    rounds = [
        Round(scenario, rng.random(len(probability)) < probability) for _ in range(_SAMPLED_ROUNDS)
    ]
    instance = build_instance(problem)
    effort = plan_effort(len(scenario.edges), runs=1)
    best: tuple[float, float] | None = None
    chosen: IntArray | None = None
    for candidate in range(_CANDIDATES):
        run_seed = integer_seed(seed, "candidate", candidate)
        found = local_search(instance, seed=run_seed, effort=effort, seconds=seconds)
        plan = make_plan(problem.risk, found.assignment, method="pool", seed=seed, plan_ms=0.0)
        costs = [_after_repair(plan, round_, index) for index, round_ in enumerate(rounds)]
        rank = (found.violation, float(np.mean(costs)))
        if best is None or rank < best:
            best, chosen = rank, found.assignment
    assert chosen is not None
    return chosen


def _after_repair(plan: Plan, round_: Round, index: int) -> float:
    """What a round costs under `plan`, more if it stays infeasible."""
    edge_of = pool(plan, round_, index, "strict")
    cost = p0(round_).objective(edge_of)
    return _INFEASIBLE * cost if p0(round_).violations(edge_of) else cost
