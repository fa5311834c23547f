"""The incremental state against evaluation from scratch, over thousands of random moves."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from helpers import random_scenario
from references import (
    NOBODY,
    edge_violations,
    edges_of,
    largest_kld,
    members_of,
    plain_scenario,
    random_assignment,
    random_round,
)
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import Problem, p0, p1, p2
from stagewise.search.annealing import apply_move, propose
from stagewise.search.instance import (
    COST,
    MEAN_KLD,
    MOST_CLIENTS,
    MUST_SERVE,
    Instance,
    build_instance,
)
from stagewise.search.random_bits import bits_from
from stagewise.search.state import (
    ENERGY,
    KLD,
    SERVING,
    VIOLATION,
    State,
    change_edge,
    find_link,
    new_state,
    start_from,
    violation_after,
)
from stagewise.search.value import value, value_after
from stagewise.world.costs import edge_costs
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario

MOVES = 2_000
SEEDS = range(3)
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


class Case(NamedTuple):
    problem: Problem
    instance: Instance
    start: np.ndarray


def world(seed: int) -> Scenario:
    """Five edges, so that the three slowest are not all of them; some clients without a link."""
    return random_scenario(
        seed, clients=24, edges=5, labels=5, reference=bool(seed % 2), capacity=(2, 7)
    )


def a_round(seed: int, **options) -> Case:
    scenario = world(seed)
    problem = p0(random_round(scenario, np.random.default_rng(seed)))
    start = np.full(24, NOBODY, dtype=np.int64)
    return Case(problem, build_instance(problem, **options), start)


def a_repair(seed: int, **options) -> Case:
    """P2: the online long-term clients are pinned, and start at their edges."""
    scenario, rng = world(seed), np.random.default_rng(seed)
    round_ = random_round(scenario, rng)
    problem = p2(round_, random_assignment(scenario, rng, share=0.4))
    return Case(problem, build_instance(problem, **options), problem.pinned)


def a_plan(seed: int, name: str) -> Case:
    scenario, rng = world(seed), np.random.default_rng(seed)
    problem = p1(scenario, risk_measure(scenario, name, seed=seed, samples=100))
    return Case(problem, build_instance(problem), random_assignment(scenario, rng))


CASES: dict[str, Callable[[int], Case]] = {
    "P0": a_round,
    "P0, least mean KLD": lambda seed: a_round(seed, objective=MEAN_KLD),
    "P0, most clients": lambda seed: a_round(seed, objective=MOST_CLIENTS),
    "P0 without KLD": lambda seed: a_round(seed, keep_kld=False),
    "P2": a_repair,
    "P2, pinned at any edge": lambda seed: a_repair(seed, pinned=MUST_SERVE),
    "P1 exact": lambda seed: a_plan(seed, "exact"),
    "P1 sampled": lambda seed: a_plan(seed, "sampled"),
    "P1 markov": lambda seed: a_plan(seed, "markov"),
}


def started(case: Case) -> State:
    state = new_state(case.instance)
    start_from(case.instance, state, case.start)
    return state


def value_from_scratch(case: Case, assignment: np.ndarray) -> float:
    problem, instance = case.problem, case.instance
    if instance.objective == MEAN_KLD:
        kld = problem.evaluate(assignment).kld
        return float(np.where(np.isinf(kld), largest_kld(problem.scenario), kld).mean())
    if instance.objective == MOST_CLIENTS:
        serving = int((assignment != NOBODY).sum())
        return problem.objective(assignment) - instance.count_weight * serving
    return problem.objective(assignment)


def violations_from_scratch(case: Case, assignment: np.ndarray) -> list[float]:
    return edge_violations(case.problem, assignment, case.instance.keep_kld)


def check_everything(case: Case, state: State) -> None:
    """Every figure of the state against the evaluation of its assignment from scratch."""
    problem, scenario = case.problem, case.problem.scenario
    assignment = state.edge_of.copy()
    evaluation = problem.evaluate(assignment)
    spent = edge_costs(scenario, problem.round.costs, assignment)
    kld = np.where(np.isinf(evaluation.kld), largest_kld(scenario), evaluation.kld)
    violation = violations_from_scratch(case, assignment)
    np.testing.assert_array_equal(state.member_count, evaluation.clients)
    np.testing.assert_array_equal(state.data, evaluation.data)
    np.testing.assert_allclose(state.delay, evaluation.edge_delay_s, **TOLERANCE)
    np.testing.assert_allclose(state.energy, spent.energy_j, **TOLERANCE)
    np.testing.assert_allclose(state.kld, kld, **TOLERANCE)
    np.testing.assert_allclose(state.violation, violation, **TOLERANCE)
    assert state.totals[ENERGY] == pytest.approx(evaluation.energy_j, rel=1e-9)
    assert state.totals[VIOLATION] == pytest.approx(sum(violation), abs=1e-9)
    assert state.totals[KLD] == pytest.approx(kld.sum(), rel=1e-9)
    assert state.totals[SERVING] == (assignment != NOBODY).sum()
    assert value(case.instance, state) == pytest.approx(
        value_from_scratch(case, assignment), abs=1e-9
    )
    slowest = [edge for edge in state.slowest.tolist() if edge != NOBODY]
    assert len(set(slowest)) == len(slowest)
    in_order = sorted(state.delay.tolist(), reverse=True)
    assert [state.delay[edge] for edge in slowest] == in_order[: len(slowest)]
    if len(slowest) < 3:  # only while no edge left out has a client
        assert not any(in_order[len(slowest) :])
    for edge, members in enumerate(members_of(scenario, assignment)):
        first = state.member_start[edge]
        assert sorted(state.members[first : first + state.member_count[edge]]) == members


def check_allowed(case: Case, assignment: np.ndarray) -> None:
    """(9e), (9f), the links, and whatever is pinned."""
    scenario = case.problem.scenario
    for client, edge in enumerate(assignment.tolist()):
        if edge != NOBODY:
            assert case.problem.round.online[client]
            assert edge in edges_of(scenario, client)
    counts = np.bincount(assignment[assignment != NOBODY], minlength=len(scenario.edges))
    assert (counts <= scenario.edges.capacity).all()


def kind_of(move: tuple[int, ...]) -> str:
    _, leaving, link, k, _, link_k = move
    if k != NOBODY:
        return "move" if link_k == NOBODY else "swap"
    if link == NOBODY:
        return "remove"
    return "add" if leaving == NOBODY else "exchange"


def walk(case: Case, state: State, seed: int, moves: int):
    """Random moves, each given before it is made; the state moves on when the caller goes on."""
    bits, focus = bits_from(seed), np.arange(len(state.member_count))
    for _ in range(moves):
        move = propose(case.instance, state, focus, bits)
        if move[0] != NOBODY:
            yield move


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_predictions_and_figures(name, seed):
    """What a move would give, asked before it is made, is what evaluation finds after it."""
    case = CASES[name](seed)
    state = started(case)
    check_everything(case, state)
    for number, move in enumerate(walk(case, state, seed, MOVES)):
        j, leaving, link, k, leaving_k, link_k = move
        foreseen = value_after(case.instance, state, *move)
        foreseen_violation = {j: violation_after(case.instance, state, j, leaving, link)}
        if k != NOBODY:
            foreseen_violation[k] = violation_after(case.instance, state, k, leaving_k, link_k)
        apply_move(case.instance, state, *move)
        assignment = state.edge_of.copy()
        assert foreseen == pytest.approx(
            value_from_scratch(case, assignment), rel=1e-9, abs=1e-9
        ), move
        violation = violations_from_scratch(case, assignment)
        for edge, expected in foreseen_violation.items():
            assert expected == pytest.approx(violation[edge], abs=1e-9), move
        if number % 20 == 0:
            check_everything(case, state)
    check_everything(case, state)


@pytest.mark.parametrize("name", CASES)
def test_moves_stay_within_what_is_allowed(name):
    """Thousands of moves: never an unlinked, offline or overfull edge, and nobody pinned moves."""
    kinds: Counter[str] = Counter()
    for seed in SEEDS:
        case = CASES[name](seed)
        state = started(case)
        pinned = case.problem.pinned
        for move in walk(case, state, seed, 2_000):
            apply_move(case.instance, state, *move)
            kinds[kind_of(move)] += 1
            if pinned is not None:
                held = pinned != NOBODY
                if "any edge" in name:
                    assert (state.edge_of[held] != NOBODY).all()
                else:
                    np.testing.assert_array_equal(state.edge_of[held], pinned[held])
            check_allowed(case, state.edge_of)
        check_everything(case, state)
    assert set(kinds) == {"add", "remove", "exchange", "move", "swap"}
    assert min(kinds.values()) >= 20


def test_pinned_clients_are_there_to_be_moved():
    """What the tests above rely on: several clients are pinned, some with a choice of edges."""
    pinned = [CASES["P2"](seed).problem.pinned for seed in SEEDS]
    assert min((row != NOBODY).sum() for row in pinned) >= 3


def test_the_delay_of_an_edge_that_loses_its_slowest_client():
    """For every client at every edge; the uplink delay, added and taken off, must not round it away."""
    for seed in range(20):
        case = a_round(seed)
        state = started(case)
        start_from(
            case.instance,
            state,
            random_assignment(
                case.problem.scenario,
                np.random.default_rng(seed),
                allowed=case.problem.round.online,
            ),
        )
        before = state.edge_of.copy()
        for client in np.flatnonzero(before != NOBODY):
            after = before.copy()
            after[client] = NOBODY
            foreseen = value_after(
                case.instance, state, before[client], client, NOBODY, NOBODY, NOBODY, NOBODY
            )
            assert foreseen == pytest.approx(case.problem.objective(after), rel=1e-9)


def test_continuity_with_one_client_that_is_never_there():
    """Eq. 10 is 0 as soon as one p is 0, however many others there are."""
    count = 120
    scenario = plain_scenario(
        [[5, 5]] * count,
        [[0, 1]] * count,
        online=[0.0, *[0.9] * (count - 1)],
        capacity=[count, count],
    )
    problem = p1(scenario, risk_measure(scenario, "markov"))
    case = Case(problem, build_instance(problem), np.arange(count) % 2)
    state = started(case)
    assert value(case.instance, state) == pytest.approx(problem.objective(case.start), rel=1e-9)
    move = (0, 0, NOBODY, NOBODY, NOBODY, NOBODY)
    foreseen = value_after(case.instance, state, *move)
    apply_move(case.instance, state, *move)
    assert foreseen == pytest.approx(problem.objective(state.edge_of.copy()), rel=1e-9)


def test_starting_leaves_out_what_has_no_place():
    """A client without the link, an offline one, and those beyond an edge's capacity."""
    scenario = plain_scenario([[5, 5]] * 5, [[0], [0], [0], [0, 1], [1]], capacity=[2, 2])
    round_ = Round(scenario, np.array([True, True, True, True, False]))
    instance = build_instance(p0(round_))
    state = new_state(instance)
    start_from(instance, state, np.array([1, 0, 0, 0, 1]))
    assert state.edge_of.tolist() == [NOBODY, 0, 0, NOBODY, NOBODY]
    start_from(instance, state, np.array([0, NOBODY, NOBODY, 1, NOBODY]))
    assert state.edge_of.tolist() == [0, NOBODY, NOBODY, 1, NOBODY]


def test_the_number_of_clients_comes_before_their_cost():
    """MOST_CLIENTS: one client more is always better, the most expensive one included."""
    for seed in SEEDS:
        case = a_round(seed, objective=MOST_CLIENTS)
        state = started(case)
        for client in np.flatnonzero(case.problem.round.online):
            for edge in edges_of(case.problem.scenario, client):
                link = find_link(case.instance, client, edge)
                if state.member_count[edge] < case.problem.scenario.edges.capacity[edge]:
                    before = value(case.instance, state)
                    change_edge(case.instance, state, edge, NOBODY, link)
                    assert value(case.instance, state) < before
                    break


def test_a_start_is_forgotten_by_the_next():
    """A state used again gives what a fresh one gives."""
    case = a_plan(1, "exact")
    used, fresh = started(case), started(case)
    for move in walk(case, used, 1, 200):
        apply_move(case.instance, used, *move)
    start_from(case.instance, used, case.start)
    for name in (
        "edge_of",
        "member_count",
        "delay",
        "energy",
        "kld",
        "violation",
        "totals",
        "data",
    ):
        np.testing.assert_array_equal(getattr(used, name), getattr(fresh, name), err_msg=name)


def test_candidates_are_the_usable_links_cheapest_first():
    scenario = world(0)
    round_ = random_round(scenario, np.random.default_rng(0))
    usable = np.arange(len(scenario.links)) % 3 != 0
    instance = build_instance(p0(round_), usable=usable)
    weights = scenario.weights
    found = set()
    for edge in range(len(scenario.edges)):
        first, last = instance.candidate_start[edge : edge + 2]
        links = instance.candidate[first:last]
        assert (instance.link_edge[links] == edge).all()
        price = (
            weights.delay * instance.link_delay[links]
            + weights.energy * instance.link_energy[links]
        )
        assert (np.diff(price) >= 0).all()
        found |= {(int(client), edge) for client in instance.link_client[links]}
    links = scenario.links
    kept = usable & round_.online[links.client]
    assert found == set(zip(links.client[kept].tolist(), links.edge[kept].tolist(), strict=True))
    assert build_instance(p0(round_)).objective == COST
