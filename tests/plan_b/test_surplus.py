"""Leaving surplus clients out, against the same greedy written out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plan_b_cases import everybody, plan_of, random_case
from references import edge_violations, plain_scenario, random_assignment, serving_of
from stagewise.checker.equations import figures
from stagewise.plan_b.surplus import leave_out_surplus
from stagewise.problem.statement import p0
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Weights


def cost_of(round_: Round, assignment: np.ndarray) -> float:
    serving = serving_of(round_.scenario, assignment)
    return figures(round_.scenario, serving, round_).cost


def plain_greedy(round_: Round, assignment: np.ndarray) -> np.ndarray:
    problem, now = p0(round_), assignment.copy()
    while True:
        cost, violations = cost_of(round_, now), edge_violations(problem, now)
        best, leaving = cost - 1e-12, -1
        for client in np.flatnonzero(now >= 0).tolist():
            without = now.copy()
            without[client] = -1
            edge = int(now[client])
            if edge_violations(problem, without)[edge] > violations[edge] + 1e-12:
                continue
            if cost_of(round_, without) < best:
                best, leaving = cost_of(round_, without), client
        if leaving < 0:
            return now
        now[leaving] = -1


@given(st.integers(0, 10_000))
def test_the_greedy_written_out(seed):
    _, round_ = random_case(seed, clients=8)
    rng = np.random.default_rng(seed)
    start = random_assignment(round_.scenario, rng, allowed=round_.online)
    answer = leave_out_surplus(p0(round_), start)
    assert answer.tolist() == plain_greedy(round_, start).tolist()
    # Nobody enters or moves.
    assert (answer[answer >= 0] == start[answer >= 0]).all()


def test_one_of_two_balanced_clients_is_enough():
    scenario = plain_scenario([[60, 60], [70, 70], [80, 80]], [[0]] * 3, capacity=[3])
    left = leave_out_surplus(p0(everybody(scenario)), np.array([0, 0, 0]))
    assert left.tolist() == [0, -1, -1]


def test_a_client_that_is_needed_stays_however_much_it_costs():
    """c1 alone has the second label."""
    scenario = plain_scenario([[60, 0], [0, 500], [400, 0]], [[0]] * 3, capacity=[3])
    left = leave_out_surplus(p0(everybody(scenario)), np.array([0, 0, 0]))
    assert left.tolist() == [-1, 0, 0]


def test_the_last_client_of_an_edge_stays():
    """Even where its edge cannot keep its limits: an edge without clients breaks more."""
    scenario = plain_scenario(
        [[5, 0]], [[0]], capacity=[3], limits=Limits(kld_max=0.1, data_min=1000)
    )
    assert leave_out_surplus(p0(everybody(scenario)), np.array([0])).tolist() == [0]


def test_where_nothing_costs_anything_nobody_leaves():
    scenario = plain_scenario(
        [[60, 60], [70, 70]], [[0]] * 2, capacity=[3], weights=Weights(0, 0, 1)
    )
    plan = plan_of(scenario, [0, 0])
    assert leave_out_surplus(p0(everybody(scenario)), plan.edge_of).tolist() == [0, 0]
