"""The pool of clusters: what is in the library, what is picked from it, and its side file."""

from dataclasses import replace

import numpy as np
import pytest

from brute_force import best_decision
from helpers import random_scenario
from stagewise.check import check_decisions, check_plan
from stagewise.cli.main import main
from stagewise.errors import StagewiseError
from stagewise.exact.solver import solve_exactly
from stagewise.plan_a.planners import plan
from stagewise.plans import load_plan, save_plan
from stagewise.pool.library import build_library
from stagewise.pool.pick import pick_from_library
from stagewise.problem.evaluation import evaluate
from stagewise.problem.statement import p0
from stagewise.search.instance import build_instance
from stagewise.world.fluctuation import fluctuate
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import save_scenario


def tiny(seed: int) -> Scenario:
    rng = np.random.default_rng(seed)
    scenario = random_scenario(seed, clients=8, edges=2, labels=3, capacity=(2, 6))
    limits = replace(
        scenario.limits,
        data_min=float(scenario.clients.data.mean() * rng.uniform(0.3, 1.2)),
        kld_max=float(rng.choice([0.2, 0.5, 1.0])),
    )
    return replace(scenario, limits=limits)


def test_every_cluster_of_the_library_keeps_the_limits():
    scenario = numeric(clients=60, edges=3, seed=1)
    library = build_library(scenario, 200)
    limits = scenario.limits
    assert len(library) > 100
    for edge in range(3):
        rows = library.clients[library.start[edge] : library.start[edge + 1]]
        sets = {frozenset(row[row >= 0].tolist()) for row in rows}
        assert len(sets) == len(rows)
        for members in sets:
            edge_of = np.full(60, -1)
            edge_of[list(members)] = edge
            figures = evaluate(scenario, scenario.costs, edge_of)
            assert figures.data[edge] >= limits.data_min
            assert figures.kld[edge] <= limits.kld_max + 1e-9
            assert len(members) <= scenario.edges.capacity[edge]


def test_with_a_complete_library_the_pick_is_the_optimum():
    feasible = 0
    for seed in range(60):
        scenario = tiny(seed)
        library = build_library(scenario, 10_000)
        online = np.random.default_rng(seed).random(8) < 0.8
        round_ = Round(scenario, online)
        optimum = best_decision(round_)
        found = pick_from_library(build_instance(p0(round_)), library, round_)
        if not optimum.feasible:
            assert found is None
            continue
        feasible += 1
        assert found is not None
        assert not p0(round_).violations(found)
        assert p0(round_).objective(found) == pytest.approx(optimum.value, rel=1e-9)
    assert feasible >= 15


def test_flexible_decisions_come_close_to_the_certified_optimum():
    scenario = numeric(clients=93, edges=4, seed=11)
    made = plan(scenario, method="pool")
    ratios = []
    for index, round_ in enumerate(bernoulli(scenario, 6, seed=4)):
        decision = made.decide(round_, index=index, mode="flexible")
        certified = solve_exactly(p0(round_))
        assert decision.feasible
        assert decision.objective >= certified.lower_bound * (1 - 1e-9)
        ratios.append(decision.objective / certified.value)
    assert np.mean(ratios) <= 1.02


@pytest.mark.parametrize("mode", ["strict", "flexible"])
def test_decisions_are_true_and_strict_ones_keep_the_plan(mode):
    for seed in range(6):
        scenario = numeric(clients=40, edges=2 + seed % 2, seed=seed)
        made = plan(scenario, method="pool", seed=seed)
        assert check_plan(scenario, made.record()) == []
        rounds = bernoulli(scenario, 3, seed)
        rounds += fluctuate(rounds[:1], seed)
        rounds += [Round(scenario, np.zeros(40, dtype=np.bool_))]
        decisions = [made.decide(r, index=i, mode=mode) for i, r in enumerate(rounds)]
        assert check_decisions(scenario, rounds, [d.record() for d in decisions]) == []
        if mode == "strict":
            for round_, decision in zip(rounds, decisions, strict=True):
                present = (made.edge_of >= 0) & round_.online
                assert (decision.edge_of[present] == made.edge_of[present]).all()


def test_a_decision_depends_on_its_round_alone():
    scenario = numeric(clients=60, edges=3, seed=2)
    made = plan(scenario, method="pool")
    rounds = bernoulli(scenario, 4, seed=0)
    forth = [made.decide(r, index=i, mode="flexible").edge_of for i, r in enumerate(rounds)]
    back = [made.decide(rounds[i], index=i, mode="flexible").edge_of for i in (3, 2, 1, 0)]
    assert all(np.array_equal(a, b) for a, b in zip(forth, back[::-1], strict=True))


def test_the_library_travels_beside_the_plan(tmp_path):
    scenario = numeric(clients=40, edges=2, seed=0)
    made = plan(scenario, method="pool")
    save_plan(made, tmp_path / "plan.json")
    loaded = load_plan(tmp_path / "plan.json", scenario)
    assert loaded.library is not None and made.library is not None
    assert np.array_equal(loaded.library.clients, made.library.clients)
    assert np.array_equal(loaded.library.links, made.library.links)
    round_ = bernoulli(scenario, 1, seed=0)[0]
    same = [p.decide(round_, mode="flexible").edge_of for p in (made, loaded)]
    assert np.array_equal(*same)


def test_a_library_that_is_missing_damaged_or_elsewhere_is_refused(tmp_path):
    scenario = numeric(clients=40, edges=2, seed=0)
    path = tmp_path / "plan.json"
    save_plan(plan(scenario, method="pool"), path)
    side = tmp_path / "plan.json.library.safetensors"
    content = side.read_bytes()
    for damaged in (b"", content[:100], content[:-8], b"\0" * 64):
        side.write_bytes(damaged)
        with pytest.raises(StagewiseError, match="library"):
            load_plan(path, scenario)
    side.unlink()
    with pytest.raises(StagewiseError, match="cannot be read"):
        load_plan(path, scenario)
    path.write_bytes(path.read_bytes().replace(side.name.encode(), b"../elsewhere"))
    with pytest.raises(StagewiseError, match="beside the plan"):
        load_plan(path, scenario)


def test_the_commands(tmp_path, capsys):
    scenario, rounds = str(tmp_path / "s.json"), str(tmp_path / "r.jsonl")
    planned, decided = str(tmp_path / "p.json"), str(tmp_path / "d.jsonl")
    save_scenario(numeric(clients=40, edges=2, seed=0), scenario)
    assert main(["availability", scenario, "--rounds", "3", "-o", rounds]) == 0
    assert main(["plan", scenario, "--method", "pool", "-o", planned]) == 0
    for mode in ("strict", "flexible"):
        arguments = ["decide", scenario, planned, "--online", rounds, "-o", decided, "--mode", mode]
        assert main(arguments) == 0
        assert main(["check", scenario, decided, "--online", rounds]) == 0
    assert '"method":"pool"' in (tmp_path / "d.jsonl").read_text()
