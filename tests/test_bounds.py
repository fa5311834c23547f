"""Bounds from prices, against every cluster there is, and what the checker makes of false ones."""

import itertools
import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import linprog

from brute_force import best_decision
from helpers import random_scenario
from stagewise.bounds import (
    FORMAT,
    BoundRecord,
    CutRecord,
    bound,
    load_bound_records,
    save_bounds,
)
from stagewise.checker.bounds import check_bounds, proven_bound
from stagewise.cli.main import main
from stagewise.deciding import solve
from stagewise.decisions import save_decisions
from stagewise.errors import StagewiseError
from stagewise.plan_a.planners import plan
from stagewise.pool import bound as pool_bound
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.rounds_file import save_rounds
from stagewise.world.scenario import Limits, Scenario, Weights
from stagewise.world.scenario_file import save_scenario

CLIENTS, EDGES = 8, 2


def some_round(seed: int) -> Round:
    rng = np.random.default_rng(seed)
    limits = Limits(
        data_min=float(rng.choice([0, 60, 150, 250])),
        kld_max=float(rng.choice([0.2, 0.5, 2.0, math.inf])),
    )
    weights = Weights(*[(0.5, 0.5), (1.0, 0.0), (0.0, 1.0)][seed % 3], 1.0)
    scenario = random_scenario(
        seed, clients=CLIENTS, edges=EDGES, labels=3, coverage=0.9, limits=limits, weights=weights
    )
    return Round(scenario, rng.random(CLIENTS) < 0.9)


def some_prices(scenario: Scenario, seed: int) -> BoundRecord:
    rng = np.random.default_rng(seed)
    delay = rng.dirichlet(np.ones(EDGES)) * scenario.weights.delay * rng.uniform(0.3, 1.0)
    cuts = []
    for _ in range(int(rng.integers(0, 6))):
        items = rng.choice(CLIENTS + EDGES, 3, replace=False).tolist()
        cuts.append(
            CutRecord(
                [scenario.clients.ids[n] for n in items if n < CLIENTS],
                float(rng.exponential(0.3)),
                [scenario.edges.ids[n - CLIENTS] for n in items if n >= CLIENTS],
            )
        )
    client = {name: float(rng.exponential(0.3)) for name in scenario.clients.ids}
    seconds = dict(zip(scenario.edges.ids, delay.tolist(), strict=True))
    return BoundRecord(FORMAT, 0, 0.0, client, seconds, cuts)


def enumerated_bound(round_: Round, record: BoundRecord) -> float:
    """The cheapest of all sets of clients at each edge, less the prices."""
    scenario = round_.scenario
    clients, links = scenario.clients, scenario.links
    total = 0.0
    for j, edge in enumerate(scenario.edges.ids):
        mine = [
            (i, k)
            for i in np.flatnonzero(round_.online).tolist()
            for k in range(links.start[i], links.start[i + 1])
            if links.edge[k] == j
        ]
        best = math.inf
        for size in range(1, int(scenario.edges.capacity[j]) + 1):
            for chosen in itertools.combinations(mine, size):
                sums = clients.label_counts[[i for i, _ in chosen]].sum(axis=0)
                if sums.sum() < scenario.limits.data_min:
                    continue
                held = sums > 0
                share = sums[held] / sums.sum()
                kld = (share * np.log(share / scenario.target[held])).sum()
                if kld > scenario.limits.kld_max + 1e-9:
                    continue
                at = [k for _, k in chosen]
                energy = scenario.edge_rounds * scenario.costs.energy_j[at].sum()
                delay = scenario.edge_rounds * scenario.costs.delay_s[at].max()
                price = scenario.weights.energy * (energy + scenario.edges.uplink_energy_j[j])
                price += record.delay_prices[edge] * (delay + scenario.edges.uplink_delay_s[j])
                names = {clients.ids[i] for i, _ in chosen}
                price += sum(record.client_prices[name] for name in names)
                for cut in record.cuts:
                    if len(names & set(cut.clients)) + (edge in cut.edges) >= 2:
                        price += cut.price
                best = min(best, float(price))
        total += best
    return total - sum(record.client_prices.values()) - sum(cut.price for cut in record.cuts)


def test_what_prices_prove_equals_a_plain_enumeration():
    finite = 0
    for seed in range(60):
        round_ = some_round(seed)
        record = some_prices(round_.scenario, seed)
        expected = enumerated_bound(round_, record)
        assert proven_bound(round_, record) == pytest.approx(expected, rel=1e-7, abs=1e-7)
        finite += math.isfinite(expected)
        assert expected <= best_decision(round_).value + 1e-9
    assert finite > 20


@pytest.mark.parametrize("largest_master", [60, 0])
def test_bounds_hold_and_are_proven_by_their_prices(largest_master, monkeypatch):
    monkeypatch.setattr(pool_bound, "_LARGEST_MASTER", largest_master)
    close = feasible = 0
    for seed in range(40):
        round_ = some_round(seed)
        [found] = bound(round_.scenario, [round_])
        best = best_decision(round_).value
        assert found.value <= best * (1 + 1e-9)
        assert check_bounds(round_.scenario, [found], [round_]) == []
        if math.isfinite(best):
            feasible += 1
            close += found.value >= 0.9 * best
    assert close >= 0.7 * feasible


def test_a_bound_one_part_in_a_million_too_high_is_refused():
    for seed in range(4):
        scenario = numeric(clients=60, edges=3, seed=seed)
        rounds = bernoulli(scenario, 1, seed=seed)
        [found] = bound(scenario, rounds)
        record = found.record()
        assert check_bounds(scenario, [record], rounds) == []
        record.lower_bound *= 1 + 1e-6
        [line] = check_bounds(scenario, [record], rounds)
        assert line.startswith("round 0: lower_bound = ") and "prove" in line


def test_prices_that_were_tampered_with_no_longer_prove_the_bound():
    scenario = numeric(clients=60, edges=3, seed=1)
    rounds = bernoulli(scenario, 1, seed=1)
    [found] = bound(scenario, rounds)
    seen = 0
    for name in list(found.record().client_prices)[:8]:
        for factor in (0.0, 3.0):
            record = found.record()
            record.client_prices[name] *= factor
            loss = 1 - proven_bound(rounds[0], record) / record.lower_bound
            assert bool(check_bounds(scenario, [record], rounds)) == (loss > 2e-7)
            seen += loss > 1e-6
    assert seen >= 6


def test_a_decision_below_a_bound_is_noticed():
    scenario = numeric(clients=30, edges=2, seed=0)
    rounds = bernoulli(scenario, 1, seed=0)
    bounds, decisions = bound(scenario, rounds), solve(scenario, rounds, "pool")
    assert check_bounds(scenario, bounds, rounds, decisions) == []
    claimed = decisions[0].record()
    claimed.objective = 0.5 * bounds[0].value
    [line] = check_bounds(scenario, bounds, rounds, [claimed])
    assert "must be at most what a feasible decision costs" in line


def test_an_edge_without_a_cluster_has_no_finite_bound(tmp_path):
    scenario = numeric(clients=30, edges=2, seed=0)
    rounds = [Round(scenario, np.zeros(30, dtype=np.bool_))]
    [found] = bound(scenario, rounds)
    assert math.isinf(found.value)
    save_bounds([found], tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == b""
    assert check_bounds(scenario, [found], rounds) == []
    some = bernoulli(scenario, 1)
    [line] = check_bounds(scenario, [found], some)
    assert line.startswith("round 0: lower_bound = inf: its prices prove")


def test_an_edge_that_never_has_a_link_is_part_of_the_round_and_one_cut_off_is_not():
    scenario = numeric(clients=30, edges=2, seed=0)
    links = scenario.links
    own = links.edge == 0
    start = np.concatenate([[0], np.cumsum(np.bincount(links.client[own], minlength=30))])
    values = {name: getattr(links, name)[own] for name in ("edge", "gain", "delay_s", "energy_j")}
    alone = replace(links, start=start, **values)
    for system, up in ((replace(scenario, links=alone), None), (scenario, own)):
        rounds = [Round(system, np.ones(30, dtype=np.bool_), up=up)]
        [found] = bound(system, rounds)
        assert math.isinf(found.value) == (up is None)
        assert math.isinf(proven_bound(rounds[0], found.record())) == (up is None)


def test_a_program_that_was_not_solved_proves_nothing(monkeypatch):
    scenario = numeric(clients=30, edges=2, seed=0)
    rounds = bernoulli(scenario, 1)
    [found] = bound(scenario, rounds)
    limited = partial(linprog, options={"maxiter": 1})
    monkeypatch.setattr("stagewise.checker.cheapest_cluster.linprog", limited)
    with pytest.raises(StagewiseError, match="not solved"):
        check_bounds(scenario, [found], rounds)


def test_a_plan_of_another_system_and_an_impossible_time_are_refused():
    scenario, other = numeric(clients=30, edges=2, seed=0), numeric(clients=30, edges=2, seed=1)
    rounds = bernoulli(scenario, 1)
    with pytest.raises(StagewiseError, match="plan: must be made for this scenario"):
        bound(scenario, rounds, plan(other))
    for seconds in (-1.0, math.nan):
        with pytest.raises(StagewiseError, match="seconds"):
            bound(scenario, rounds, seconds=seconds)


@pytest.fixture
def files(tmp_path):
    scenario = numeric(clients=40, edges=2, seed=0)
    rounds = bernoulli(scenario, 2, seed=0)
    save_scenario(scenario, tmp_path / "s.json")
    save_rounds(rounds, tmp_path / "o.jsonl")
    save_decisions(solve(scenario, rounds, "pool"), tmp_path / "d.jsonl")
    online = ["--online", str(tmp_path / "o.jsonl")]
    assert main(["bound", str(tmp_path / "s.json"), *online, "-o", str(tmp_path / "b.jsonl")]) == 0
    return tmp_path


def checked(files) -> int:
    scenario, decisions = str(files / "s.json"), str(files / "d.jsonl")
    online, bounds = str(files / "o.jsonl"), str(files / "b.jsonl")
    return main(["check", scenario, decisions, "--online", online, "--bound", bounds])


def test_the_commands_and_the_file(files, capsys):
    assert checked(files) == 0
    assert "2 decisions and 2 bounds: everything is true" in capsys.readouterr().out
    assert [record.round for record in load_bound_records(files / "b.jsonl")] == [0, 1]
    lines = [json.loads(line) for line in (files / "b.jsonl").read_text().splitlines()]
    lines[1]["lower_bound"] *= 1.000001
    (files / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert checked(files) == 1
    assert capsys.readouterr().out.startswith("round 1: lower_bound")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: r["client_prices"].update(nobody=1.0), "nobody"),
        (lambda r: r["client_prices"].update(c0=-1.0), "= -1.0"),
        (lambda r: r["delay_prices"].update(es0=9.0), "delay_prices: sum to"),
        (lambda r: r.update(cuts=[{"clients": ["c0", "c0", "c1"], "price": 1.0}]), "cuts[0]"),
        (lambda r: r.update(cuts=[{"clients": ["c0", "c1"], "price": 1.0}]), "cuts[0]"),
        (lambda r: r.update(round=7), "round 7: there is no such round"),
    ],
)
def test_what_makes_no_sense_is_one_line(files, capsys, change, told):
    lines = [json.loads(line) for line in (files / "b.jsonl").read_text().splitlines()]
    change(lines[0])
    (files / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
    capsys.readouterr()
    assert checked(files) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert told in line
