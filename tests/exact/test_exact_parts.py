"""The parts of the exact solver against plain enumeration; its log, and its end by Ctrl-C."""

import itertools
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from helpers import random_scenario
from stagewise.cli.main import INTERRUPTED, main
from stagewise.compiled import NONE
from stagewise.exact.clusters import EdgeCandidates, edge_candidates
from stagewise.exact.columns import Columns, columns_of, edge_of, enumerate_columns
from stagewise.exact.cuts import Cuts
from stagewise.exact.packing import Budget, pack
from stagewise.exact.prices import Prices
from stagewise.exact.pricing import Scope, even_prices, least_delay, least_energy_cost
from stagewise.exact.relaxation import relaxed_price
from stagewise.exact.search_threads import SearchThreads
from stagewise.problem.statement import p0, p2
from stagewise.search.instance import Instance, build_instance
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.rounds_file import save_rounds
from stagewise.world.scenario import Limits, Weights
from stagewise.world.scenario_file import save_scenario

CLIENTS = 9


def some_instance(seed: int, *, pinned: bool = False) -> Instance:
    rng = np.random.default_rng(seed)
    limits = Limits(
        data_min=float(rng.choice([0, 60, 120, 250])), kld_max=float(rng.choice([0, 0.2, 0.5, 3.0]))
    )
    weights = Weights(*[(0.5, 0.5), (1.0, 0.0), (0.0, 1.0)][seed % 3], 1.0)
    scenario = random_scenario(
        seed, clients=CLIENTS, edges=3, labels=4, coverage=0.9, limits=limits, weights=weights
    )
    round_ = Round(scenario, np.ones(CLIENTS, dtype=np.bool_))
    if not pinned:
        return build_instance(p0(round_))
    plan = np.full(CLIENTS, -1)
    first = scenario.links.start[:-1]
    linked = np.flatnonzero(np.diff(scenario.links.start) > 0)[:2]
    plan[linked] = scenario.links.edge[first[linked]]
    return build_instance(p2(round_, plan))


def all_prices(candidates: EdgeCandidates) -> dict[frozenset[int], float]:
    """The price of every set of free candidates that, with the pinned, keeps the edge's limits."""
    prices = {}
    in_cut = np.zeros((len(candidates.price), len(candidates.cut_price)), dtype=np.int64)
    for place in range(len(candidates.price)):
        in_cut[
            place, candidates.cut[candidates.cut_start[place] : candidates.cut_start[place + 1]]
        ] = 1
    for size in range(candidates.capacity - candidates.base_count + 1):
        for places in itertools.combinations(range(len(candidates.price)), size):
            sums = candidates.base_labels.astype(float)
            for place in places:
                row = slice(candidates.start[place], candidates.start[place + 1])
                sums[candidates.label[row]] += candidates.amount[row]
            total = sums.sum()
            if candidates.base_count + size == 0 or total < candidates.data_limit or total == 0:
                continue
            held = sums > 0
            share = sums[held] / total
            kld = float((share * (np.log(share) - candidates.log_target[held])).sum())
            if kld <= candidates.kld_limit + 1e-9:
                chosen = list(places)
                delay = max([candidates.base_delay, *candidates.delay[chosen]])
                price = candidates.base_price + candidates.price[chosen].sum() + delay
                crossed = candidates.cut_base + in_cut[chosen].sum(axis=0) >= 2
                price += candidates.cut_price[crossed].sum()
                prices[frozenset(chosen)] = float(price)
    return prices


def random_candidates(seed: int, instance: Instance, most_cuts: int = 8) -> EdgeCandidates:
    rng = np.random.default_rng(seed)
    client_price = rng.exponential(0.5, len(instance.lock)) * rng.integers(0, 2, CLIENTS)
    limit = float(rng.choice([np.inf, np.median(instance.link_delay) + 0.18]))
    edge, delay_price = int(rng.integers(3)), rng.random(3)
    cuts = random_cuts(rng, int(rng.integers(0, most_cuts + 1)))
    return edge_candidates(instance, edge, Prices(client_price, delay_price, cuts), limit)


def random_cuts(rng: np.random.Generator, count: int) -> Cuts:
    """Triples of clients and edges, half of them without a price."""
    items = [np.sort(rng.choice(CLIENTS + 3, 3, replace=False)) for _ in range(count)]
    price = rng.exponential(0.3, count) * rng.integers(0, 2, count)
    return Cuts(np.array(items, dtype=np.int64).reshape(-1, 3), price)


@pytest.mark.parametrize("pinned", [False, True])
def test_the_relaxation_is_below_every_cluster(pinned):
    tight = 0
    for seed in range(60):
        for most_cuts in (8, 0):
            instance = some_instance(seed, pinned=pinned)
            candidates = random_candidates(seed, instance, most_cuts)
            prices = all_prices(candidates)
            least = min(prices.values(), default=np.inf)
            for known in (least, 2 * least + 1, np.inf):
                assert relaxed_price(candidates, known) <= least * (1 + 1e-9) + 1e-12
        tight += np.isfinite(least) and relaxed_price(candidates, least) > 0.8 * least
    assert tight >= 5


@pytest.mark.parametrize("pinned", [False, True])
def test_an_enumeration_cut_short_says_what_it_left_out(pinned):
    for seed in range(60):
        instance = some_instance(seed, pinned=pinned)
        candidates = random_candidates(seed, instance)
        if len(candidates.link) == 0:
            continue
        prices = all_prices(candidates)
        client_place = {int(c): i for i, c in enumerate(instance.link_client[candidates.link])}
        for nodes in (1, 5, 20, 10**6):
            found = enumerate_columns(instance, candidates, np.inf, max_clusters=10**4, nodes=nodes)
            seen = {
                frozenset(client_place[int(c)] for c in row if c != NONE)
                for row in found.columns.members
            }
            assert seen <= set(prices)
            for cluster, price in prices.items():
                if not any(smaller <= cluster for smaller in seen):
                    assert not found.complete
                    assert price >= found.left_out * (1 - 1e-12)


def test_best_only_finds_the_cheapest():
    for seed in range(60):
        instance = some_instance(seed)
        candidates = random_candidates(seed, instance)
        least = min(all_prices(candidates).values(), default=np.inf)
        found = enumerate_columns(
            instance, candidates, np.inf, max_clusters=1, nodes=10**6, best_only=True
        )
        assert found.complete and len(found.columns) == np.isfinite(least)
        if len(found.columns):
            cap = least * (1 - 1e-9) - 1e-12
            below = enumerate_columns(
                instance, candidates, cap, max_clusters=1, nodes=10**6, best_only=True
            )
            assert len(below.columns) == 0
            again = enumerate_columns(
                instance, candidates, least + 1e-12, max_clusters=1, nodes=10**6
            )
            assert len(again.columns) == 1


def test_no_round_is_faster_or_thriftier_than_the_least():
    for seed in range(60):
        instance = some_instance(seed)
        with SearchThreads() as threads:
            delay, energy = least_delay(instance, threads), least_energy_cost(instance, threads)
        nothing = np.zeros(len(instance.lock))
        free, each = Prices(nothing, np.zeros(3)), Prices(nothing, np.ones(3))
        prices = [all_prices(edge_candidates(instance, j, free)) for j in range(3)]
        cheapest = [min(part.values(), default=np.inf) for part in prices]
        assert energy == pytest.approx(sum(cheapest), rel=1e-6)
        seconds = instance._replace(energy_weight=0.0)
        slowest = [
            min(all_prices(edge_candidates(seconds, j, each)).values(), default=np.inf)
            for j in range(3)
        ]
        assert delay == pytest.approx(max(slowest), rel=1e-6)


def test_an_assignment_as_columns_and_back():
    for seed in range(40):
        instance = some_instance(seed, pinned=True)
        rng = np.random.default_rng(seed)
        assignment = np.full(CLIENTS, -1)
        for client in range(CLIENTS):
            links = range(instance.link_start[client], instance.link_start[client + 1])
            if len(links) and (instance.lock[client] or rng.random() < 0.7):
                assignment[client] = instance.link_edge[rng.choice(links)]
        pinned = np.where(instance.lock > 0, assignment, -1)
        columns = columns_of(instance, assignment)
        assert np.array_equal(edge_of(instance, columns, pinned), assignment)
        assert columns.edge.tolist() == [0, 1, 2]


def test_packing_some_edges_around_a_given_delay():
    """Against every choice of one cluster for each edge of the scope."""
    rng = np.random.default_rng(5)
    instance = some_instance(0)
    for _ in range(60):
        count = 30
        members = np.sort(rng.integers(0, CLIENTS, (count, 2)), axis=1).astype(np.int32)
        members[members[:, 0] == members[:, 1], 1] = NONE
        columns = Columns(
            rng.choice([0, 2], count).astype(np.int32),
            members,
            rng.random(count),
            rng.random(count),
        )
        scope, floor = np.array([0, 2]), float(rng.random())
        best = min(
            (
                instance.delay_weight * max(floor, columns.delay[a], columns.delay[b])
                + instance.energy_weight * (columns.energy[a] + columns.energy[b])
                for a in np.flatnonzero(columns.edge == 0)
                for b in np.flatnonzero(columns.edge == 2)
                if not set(members[a][members[a] >= 0]) & set(members[b][members[b] >= 0])
            ),
            default=np.inf,
        )
        packing = pack(
            instance,
            columns,
            instance.energy_weight * columns.energy,
            instance.delay_weight * floor,
            np.inf,
            Budget(),
            scope=scope,
            least_delay=floor,
        )
        assert packing.complete
        assert packing.value == pytest.approx(best)


def test_a_search_stops_when_the_time_is_over():
    """Without prices or limits on KLD to prune by, it would take hours."""
    scenario = numeric(clients=200, edges=1, seed=0, limits=Limits(kld_max=0.001, data_min=10_000))
    scenario = replace(scenario, weights=Weights(1.0, 0.0, 1.0))
    instance = build_instance(p0(Round(scenario, np.ones(200, dtype=np.bool_))))
    candidates = edge_candidates(instance, 0, Prices(np.zeros(200), np.zeros(1)))
    with SearchThreads(0.3) as threads:
        found = enumerate_columns(
            instance,
            candidates,
            np.inf,
            max_clusters=1,
            nodes=10**15,
            best_only=True,
            stop=threads.stop,
        )
        assert threads.out_of_time and not found.complete
    alive = [thread for thread in threading.enumerate() if "ThreadPool" in thread.name]
    assert not alive


def test_even_prices_share_the_weight_of_delay():
    instance = some_instance(0)
    assert even_prices(instance).delay.sum() == pytest.approx(instance.delay_weight)
    assert Scope() == (0.0, np.inf)


@pytest.fixture
def files(tmp_path):
    scenario = numeric(clients=60, edges=3, seed=0)
    save_scenario(scenario, tmp_path / "s.json")
    save_rounds(bernoulli(scenario, 2, seed=0), tmp_path / "o.jsonl")
    return tmp_path


def test_the_log_goes_to_standard_error_alone(files, capsys):
    solve = [
        "solve",
        str(files / "s.json"),
        "--online",
        str(files / "o.jsonl"),
        "--method",
        "exact",
    ]
    assert main([*solve, "-o", "-"]) == 0
    quiet = capsys.readouterr()
    assert quiet.err == ""
    assert main([*solve, "-o", "-", "--verbose"]) == 0
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == len(quiet.out.splitlines()) == 2
    lines = told.err.splitlines()
    assert all(line.startswith(("round 0: ", "round 1: ")) for line in lines)
    assert any("cost" in line and "bound" in line and "gap" in line for line in lines)
    assert main([*solve, "-o", "-"]) == 0
    assert capsys.readouterr().err == ""


def test_ctrl_c_ends_at_once_with_one_line(tmp_path):
    scenario = numeric(clients=800, edges=30, seed=0)
    save_scenario(scenario, tmp_path / "s.json")
    save_rounds(bernoulli(scenario, 1, seed=0), tmp_path / "o.jsonl")
    answer = tmp_path / "d.jsonl"
    command = [
        *(sys.executable, "-m", "stagewise", "solve", str(tmp_path / "s.json")),
        *("--online", str(tmp_path / "o.jsonl"), "--method", "exact", "--verbose"),
        *("--seconds", "600", "-o", str(answer)),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "column generation" in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read().splitlines()
    assert process.returncode == INTERRUPTED
    assert rest[-1] == "stagewise: interrupted; nothing was written"
    assert not any("Traceback" in line for line in rest)
    assert not answer.exists()
