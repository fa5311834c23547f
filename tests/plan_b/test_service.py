"""Diversity: who has served becomes dearer, so that equally good clients take turns."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from plan_b_cases import everybody, plan_of, random_case
from references import plain_scenario
from stagewise.check import check_decisions
from stagewise.cli.main import main
from stagewise.decisions import load_decision_records
from stagewise.errors import StagewiseError
from stagewise.plan_a.planners import plan
from stagewise.plan_b.service import ServiceRecord
from stagewise.plans import Plan, save_plan
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round, save_rounds
from stagewise.world.scenario import Limits, Scenario
from stagewise.world.scenario_file import save_scenario

ROUNDS = 10


def always_there(clients: int = 40, edges: int = 2, seed: int = 0) -> Scenario:
    return numeric(clients=clients, edges=edges, seed=seed).with_online_probability(
        np.ones(clients)
    )


@pytest.fixture(scope="module")
def pool_plan() -> Plan:
    return plan(always_there(), method="pool")


def decided(made: Plan, weight: float | None, mode: str = "flexible") -> list:
    """Ten rounds with everybody online."""
    service = None if weight is None else ServiceRecord(len(made.scenario.clients), weight)
    round_ = everybody(made.scenario)
    return [
        made.decide(round_, index=index, method="pool", mode=mode, service=service)
        for index in range(ROUNDS)
    ]


def who_served(decisions: list) -> set[int]:
    return {int(client) for d in decisions for client in np.flatnonzero(d.edge_of >= 0)}


@pytest.mark.parametrize("mode", ["strict", "flexible"])
def test_a_weight_of_0_changes_nothing(pool_plan, mode):
    scenario = pool_plan.scenario
    rounds = bernoulli(numeric(clients=40, edges=2, seed=0), 4, seed=1)
    service = ServiceRecord(40, 0.0)
    for index, round_ in enumerate(rounds):
        round_ = Round(scenario, round_.online)
        without = pool_plan.decide(round_, index=index, mode=mode)
        with_it = pool_plan.decide(round_, index=index, mode=mode, service=service)
        assert with_it.edge_of.tolist() == without.edge_of.tolist()


def test_more_clients_serve_where_all_are_always_online(pool_plan):
    same, diverse = decided(pool_plan, None), decided(pool_plan, 0.5)
    assert diverse[0].edge_of.tolist() == same[0].edge_of.tolist()
    assert len(who_served(diverse)) > 1.5 * len(who_served(same))
    more = decided(pool_plan, 5.0)
    assert len(who_served(more)) >= len(who_served(diverse))


def test_a_decision_says_what_it_costs_without_the_surcharge(pool_plan):
    diverse = decided(pool_plan, 2.0)
    rounds = [everybody(pool_plan.scenario)] * ROUNDS
    records = [decision.record() for decision in diverse]
    assert check_decisions(pool_plan.scenario, rounds, records) == []
    assert all(decision.feasible for decision in diverse)
    best = min(decision.objective for decision in decided(pool_plan, None))
    assert all(decision.objective >= best * (1 - 1e-3) for decision in diverse)


def test_strict_keeps_the_plan_and_still_decides_truly(pool_plan):
    long_term = pool_plan.edge_of >= 0
    for decision in decided(pool_plan, 2.0, "strict"):
        assert (decision.edge_of[long_term] == pool_plan.edge_of[long_term]).all()


def two_pairs() -> Plan:
    """Four clients of the same price; one of each label makes a cluster."""
    counts = [[60, 0], [60, 0], [0, 60], [0, 60]]
    scenario = plain_scenario(
        counts, [[0]] * 4, online=[1.0] * 4, capacity=[9], limits=Limits(0.01, 100)
    )
    return plan_of(scenario, [-1] * 4, method="pool")


def test_equal_clusters_rotate():
    made = two_pairs()
    same, diverse = decided(made, 0.0), decided(made, 0.01)
    turns = [frozenset(decision.assignment) for decision in diverse]
    assert all(len(turn) == 2 for turn in turns)
    assert not any(last & turn for last, turn in pairwise(turns))  # those who rested serve next
    assert len({frozenset(decision.assignment) for decision in same}) == 1
    assert {decision.objective for decision in diverse} == {same[0].objective}


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0)])
def test_equal_clusters_rotate_whatever_the_weights(weights):
    made = two_pairs()
    changed = replace(made.scenario.weights, delay=weights[0], energy=weights[1])
    made = plan_of(replace(made.scenario, weights=changed), [-1] * 4, method="pool")
    turns = [frozenset(d.assignment) for d in decided(made, 0.5)]
    assert len(set(turns)) > 1


def test_the_surcharge_counts_how_often_and_how_lately():
    record = ServiceRecord(4, 2.0)
    assert record.surcharge() is None
    for edge_of in ([0, -1, 1, -1], [0, 1, -1, -1]):
        record.remember(np.array(edge_of))
    surcharge = record.surcharge()
    # Half of the weight for the share of rounds, half for a mean in which a round counts half
    # of the one after it.
    assert surcharge == pytest.approx([1 + 0.75, 0.5 + 0.5, 0.5 + 0.25, 0])
    for _ in range(60):
        record.remember(np.array([0, -1, -1, -1]))
    assert record.surcharge() == pytest.approx([2.0, 1 / 62, 1 / 62, 0], abs=1e-9)


def test_a_record_without_a_weight_keeps_count_but_charges_nothing():
    record = ServiceRecord(2)
    record.remember(np.array([0, -1]))
    assert record.weight == 0
    assert record.surcharge() is None


@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf, -math.inf])
def test_a_weight_that_cannot_be(weight):
    with pytest.raises(
        StagewiseError, match=r"diversity = .*: must be a finite number of at least 0"
    ):
        ServiceRecord(3, weight)


@pytest.mark.parametrize("method", ["repair", "ccu"])
def test_other_methods_do_not_take_it(method):
    made, round_ = random_case(0)
    clients = len(made.scenario.clients)
    with pytest.raises(StagewiseError) as error:
        made.decide(round_, method=method, service=ServiceRecord(clients, 0.5))
    assert str(error.value) == f"diversity = 0.5: needs method 'pool', not '{method}'"
    unweighted = ServiceRecord(clients)
    without = made.decide(round_, method=method)
    assert made.decide(round_, method=method, service=unweighted).edge_of.tolist() == (
        without.edge_of.tolist()
    )


def test_nobody_online_is_remembered_too():
    made = two_pairs()
    service = ServiceRecord(4, 1.0)
    nobody = Round(made.scenario, np.zeros(4, dtype=np.bool_))
    for _ in range(2):
        assert made.decide(nobody, method="pool", mode="flexible", service=service).assignment == {}
    surcharge = service.surcharge()
    assert surcharge is not None and surcharge.tolist() == [0.0] * 4


@pytest.fixture
def files(tmp_path, pool_plan) -> dict[str, str]:
    names = {name: str(tmp_path / name) for name in ("s.json", "r.jsonl", "p.json", "d.jsonl")}
    save_scenario(pool_plan.scenario, names["s.json"])
    save_rounds([everybody(pool_plan.scenario)] * 6, names["r.jsonl"])
    save_plan(pool_plan, names["p.json"])
    return names


def command(files: dict[str, str], *options: str) -> list[str]:
    scenario, planned, rounds = files["s.json"], files["p.json"], files["r.jsonl"]
    return ["decide", scenario, planned, "--online", rounds, "-o", files["d.jsonl"], *options]


def test_the_command(files):
    served = {}
    for weight in ("0", "0.5"):
        options = ("--mode", "flexible", "--diversity", weight)
        assert main(command(files, *options)) == 0
        checked = ["check", files["s.json"], files["d.jsonl"], "--online", files["r.jsonl"]]
        assert main(checked) == 0
        records = load_decision_records(files["d.jsonl"])
        served[weight] = {client for record in records for client in record.assignment}
    assert len(served["0.5"]) > len(served["0"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--diversity=-1"], "diversity = -1"),
        (["--diversity=nan"], "diversity = nan"),
        (["--diversity=0.5", "--method=repair"], "needs method 'pool', not 'repair'"),
        (["--diversity=0.5", "--method=ccu"], "needs method 'pool', not 'ccu'"),
    ],
)
def test_the_command_refuses(files, capsys, options, message):
    assert main(command(files, *options)) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1
