"""The six methods the paper compares against: what defines each, and what they claim."""

from dataclasses import replace

import numpy as np
import pytest

from brute_force import best_decision
from helpers import random_scenario, renumbered
from references import plain_kld, random_round
from stagewise.checker import check
from stagewise.deciding import solve
from stagewise.decisions import Decision
from stagewise.policies.registry import make_policy, policy_factory
from stagewise.world.fluctuation import fluctuate
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario

BENCHMARKS = (
    "orig-prob-solver",
    "kld-minimization",
    "client-sel-only",
    "c2e-assoc-only",
    "c2e-greedy-assoc",
    "fedcs",
)
LIMITS = Limits(kld_max=0.6, data_min=120)


def system(seed: int, **options: object) -> Scenario:
    return random_scenario(
        seed, clients=16, edges=3, labels=4, limits=LIMITS, coverage=0.7, **options
    )


def decisions(
    scenario: Scenario, rounds: list[Round], method: str, seed: int = 0
) -> list[Decision]:
    rounds = renumbered(rounds)
    made = solve(scenario, rounds, method=method, seed=seed)
    assert check(scenario, [decision.record() for decision in made], rounds) == []
    return made


def fastest_edge(round_: Round, client: int) -> int:
    """The edge with the least t_ij^com, written out."""
    scenario, links = round_.scenario, round_.scenario.links
    gain = links.gain if round_.gain is None else round_.gain
    times = {}
    for link in range(links.start[client], links.start[client + 1]):
        edge = int(links.edge[link])
        bandwidth = scenario.edges.bandwidth_hz[edge]
        noise = scenario.noise_w_per_hz * bandwidth
        rate = bandwidth * np.log2(1 + scenario.clients.tx_power_w[client] * gain[link] / noise)
        times[edge] = scenario.model_bits / rate
    return min(times, key=times.__getitem__)


@pytest.mark.parametrize("method", BENCHMARKS)
@pytest.mark.parametrize("seed", range(8))
def test_decisions_are_true(method, seed):
    """In ordinary and fluctuating rounds, with nobody and with everybody online."""
    scenario = system(seed, reference=bool(seed % 2), weights=None)
    rounds = bernoulli(scenario, 2, seed)
    rounds += fluctuate(rounds, seed)
    rounds += [Round(scenario, np.full(16, online)) for online in (False, True)]
    made = decisions(scenario, rounds, method, seed)
    assert made[4].assignment == {}
    assert [decision.method for decision in made] == [method] * 6
    assert [decision.round.index for decision in made] == list(range(6))


@pytest.mark.parametrize("method", BENCHMARKS)
def test_decisions_depend_on_seed_and_round_alone(method):
    scenario = system(1)
    rounds = fluctuate(bernoulli(scenario, 4, 0), 0)
    first = [decision.edge_of.tolist() for decision in decisions(scenario, rounds, method, 5)]
    again = [decision.edge_of.tolist() for decision in decisions(system(1), rounds, method, 5)]
    assert again == first
    # A round decided without those before it is decided alike.
    policy = policy_factory(method)(scenario, seed=5, seconds=None)
    assert policy.decide(rounds[3]).edge_of.tolist() == first[3]


@pytest.mark.parametrize("method", BENCHMARKS)
def test_no_method_claims_what_cannot_be(method):
    """120 small rounds against all assignments: feasible only where possible, never too cheap."""
    possible = found = 0
    for seed in range(120):
        scenario = random_scenario(
            seed, 6, 2, 3, limits=Limits(kld_max=0.6, data_min=60), isolated=0
        )
        round_ = random_round(scenario, np.random.default_rng(seed))
        best, (made,) = best_decision(round_), decisions(scenario, [round_], method)
        possible += best.feasible
        if made.feasible:
            found += 1
            assert best.feasible
            assert made.objective >= best.value - 1e-9
    assert 40 < possible < 120
    # Those that drop the KLD still stumble on it; OrigProbSolver looks for it.
    assert found > (0.85 if method in BENCHMARKS[:2] else 0) * possible


def test_orig_prob_solver_comes_close_to_the_optimum():
    ratios = []
    for seed in range(60):
        scenario = random_scenario(
            seed, 6, 2, 3, limits=Limits(kld_max=0.6, data_min=60), isolated=0
        )
        round_ = random_round(scenario, np.random.default_rng(seed))
        best, (made,) = best_decision(round_), decisions(scenario, [round_], "orig-prob-solver")
        if made.feasible:
            ratios.append(made.objective / best.value)
    assert np.mean(ratios) < 1.1
    assert min(ratios) >= 1 - 1e-9


def mean_kld(decision: Decision) -> float:
    """The mean over edges, with the largest divergence there is for an edge without clients."""
    scenario = decision.scenario
    sums = np.zeros((len(scenario.edges), scenario.labels), dtype=np.int64)
    for client, edge in enumerate(decision.edge_of.tolist()):
        if edge >= 0:
            sums[edge] += scenario.clients.label_counts[client]
    largest = 2 - np.log(scenario.target.min())
    target = scenario.target.tolist()
    return float(np.mean([min(plain_kld(row, target), largest) for row in sums.tolist()]))


def test_kld_minimization_has_less_divergence_and_pays_for_it():
    scenarios = [
        numeric(40, 3, seed, limits=Limits(kld_max=0.5, data_min=800)) for seed in range(2)
    ]
    for scenario in scenarios:
        rounds = bernoulli(scenario, 4, 0)
        balanced = decisions(scenario, rounds, "kld-minimization")
        cheap = decisions(scenario, rounds, "orig-prob-solver")
        assert all(mean_kld(a) < mean_kld(b) for a, b in zip(balanced, cheap, strict=True))
        assert np.mean([d.objective for d in balanced]) > np.mean([d.objective for d in cheap])


def test_client_sel_only_gives_each_client_one_random_edge():
    """Whoever else is online: a client's edge in a round is drawn before anything is chosen."""
    scenario = system(3, isolated=0)
    rng = np.random.default_rng(0)
    policy = policy_factory("client-sel-only")(scenario, seed=2, seconds=None)
    seen: dict[int, dict[int, set[int]]] = {}
    for index in range(4):
        edges = seen.setdefault(index, {})
        for _ in range(25):
            answer = policy.decide(Round(scenario, rng.random(16) < 0.7, index)).edge_of
            for client in np.flatnonzero(answer >= 0).tolist():
                edges.setdefault(client, set()).add(int(answer[client]))
        assert all(len(choices) == 1 for choices in edges.values())
        assert len(edges) > 10
    # Another round draws again.
    moved = [c for c in seen[0] if c in seen[1] and seen[0][c] != seen[1][c]]
    assert moved


def test_client_sel_only_draws_every_edge_alike():
    scenario = random_scenario(0, 40, 2, coverage=1, isolated=0, limits=LIMITS, capacity=(40, 40))
    rounds = [Round(scenario, np.ones(40, dtype=np.bool_), index) for index in range(20)]
    policy = policy_factory("client-sel-only")(scenario, seed=0, seconds=None)
    chosen = np.concatenate([policy.decide(round_).edge_of for round_ in rounds])
    share = (chosen[chosen >= 0] == 0).mean()
    assert 0.3 < share < 0.7


@pytest.mark.parametrize("method", ["c2e-greedy-assoc", "fedcs"])
def test_each_client_serves_the_edge_it_reaches_fastest(method):
    for seed in range(10):
        scenario = system(seed)
        rounds = bernoulli(scenario, 2, seed)
        for round_ in rounds + fluctuate(rounds, seed):
            (made,) = decisions(scenario, [round_], method)
            for client in np.flatnonzero(made.edge_of >= 0).tolist():
                assert made.edge_of[client] == fastest_edge(round_, client)


def test_fedcs_serves_as_many_clients_as_there_is_room_for():
    for seed in range(20):
        scenario = system(seed)
        for round_ in fluctuate(bernoulli(scenario, 2, seed), seed):
            (made,) = decisions(scenario, [round_], "fedcs")
            linked = np.flatnonzero(round_.online & (np.diff(scenario.links.start) > 0))
            wanting = np.bincount(
                [fastest_edge(round_, client) for client in linked.tolist()], minlength=3
            )
            room = np.minimum(wanting, scenario.edges.capacity)
            assert made.evaluation.clients.tolist() == room.tolist()


def test_c2e_greedy_assoc_takes_no_client_it_does_not_need():
    """Alg. 3 minimises cost here: FedCS serves more clients at a higher cost."""
    scenario = system(2, isolated=0)
    rounds = bernoulli(scenario, 6, 0)
    few = decisions(scenario, rounds, "c2e-greedy-assoc")
    many = decisions(scenario, rounds, "fedcs")
    assert sum(len(d.assignment) for d in few) < sum(len(d.assignment) for d in many)
    assert sum(d.objective for d in few) < sum(d.objective for d in many)


def roomy(seed: int) -> Scenario:
    return random_scenario(
        seed, 20, 2, 4, limits=LIMITS, coverage=0.8, isolated=0, capacity=(20, 20)
    )


def test_c2e_assoc_only_keeps_its_random_set_whatever_it_costs():
    """With room for all, the set depends on seed and round; the association on the costs."""
    differing = 0
    for seed in range(10):
        scenario = roomy(seed)
        (round_,) = bernoulli(scenario, 1, seed)
        expensive, cheap = fluctuate([round_, round_], seed)
        made = [decisions(scenario, [r], "c2e-assoc-only")[0] for r in (round_, expensive, cheap)]
        assert len({frozenset(decision.assignment) for decision in made}) == 1
        differing += len({tuple(decision.edge_of) for decision in made}) > 1
        # Clients in random order until there is half as much again as all edges need.
        sizes = scenario.clients.data[made[0].edge_of >= 0]
        wanted = 1.5 * 2 * LIMITS.data_min
        online = scenario.clients.data[round_.online].sum()
        assert sizes.sum() >= min(wanted, online)
        assert sizes.sum() - sizes.max() < wanted
    assert differing > 0


def test_c2e_assoc_only_draws_another_set_in_every_round():
    scenario = roomy(0)
    round_ = Round(scenario, np.ones(20, dtype=np.bool_))
    made = decisions(scenario, [round_] * 6, "c2e-assoc-only")
    assert len({frozenset(decision.assignment) for decision in made}) > 3


def test_c2e_assoc_only_with_less_room_than_data_wanted():
    """The set is what fits: no edge above its capacity, and nobody without a place."""
    for seed in range(10):
        scenario = system(seed)
        tight = replace(scenario, edges=replace(scenario.edges, capacity=np.array([1, 1, 1])))
        (made,) = decisions(tight, [Round(tight, np.ones(16, dtype=np.bool_))], "c2e-assoc-only")
        assert len(made.assignment) <= 3


def test_the_fastest_edge_among_links_of_both_kinds():
    """Measuring exactly what the model says changes nothing."""
    scenario = numeric(clients=30, edges=3, seed=4)
    [plain] = bernoulli(scenario, rounds=1)
    at_first_edge = scenario.links.edge == 0
    measured = {
        name: np.where(at_first_edge, getattr(scenario.costs, name), np.nan)
        for name in ("delay_s", "energy_j")
    }
    half = replace(plain, **measured)
    for method in ("fedcs", "c2e-greedy-assoc"):
        answers = [make_policy(method, scenario).decide(r).edge_of for r in (plain, half)]
        np.testing.assert_array_equal(*answers)
