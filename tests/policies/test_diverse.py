"""Diversity: who has served becomes more expensive, so that equally good clients take turns."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from helpers import decide_round, renumbered
from plan_b_cases import decide, everybody, plan_of, random_case
from references import plain_scenario
from stagewise.checker import check
from stagewise.cli.main import main
from stagewise.deciding import decide as decide_rounds
from stagewise.decisions import Answer, load_decision_records
from stagewise.errors import StagewiseError
from stagewise.plan_a.planners import plan
from stagewise.plans import Plan, save_plan
from stagewise.policies.diverse import Diverse
from stagewise.policies.policy import Policy
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.rounds_file import save_rounds
from stagewise.world.scenario import Limits, Scenario
from stagewise.world.scenario_file import save_scenario

ROUNDS = 10


def always_there(clients: int = 40, edges: int = 2, seed: int = 0) -> Scenario:
    return numeric(clients=clients, edges=edges, seed=seed).as_of(
        online_probability=np.ones(clients)
    )


@pytest.fixture(scope="module")
def pool_plan() -> Plan:
    return plan(always_there(), method="pool")


def decided(made: Plan, weight: float, mode: str = "flexible") -> list:
    """Ten rounds with everybody online."""
    rounds = renumbered([everybody(made.scenario)] * ROUNDS)
    return decide_rounds(made, rounds, method="pool", mode=mode, diversity=weight)


def who_served(decisions: list) -> set[int]:
    return {int(client) for d in decisions for client in np.flatnonzero(d.edge_of >= 0)}


@pytest.mark.parametrize("mode", ["strict", "flexible"])
def test_a_weight_of_0_changes_nothing(pool_plan, mode):
    scenario = pool_plan.scenario
    rounds = bernoulli(numeric(clients=40, edges=2, seed=0), 4, seed=1)
    rounds = [Round(scenario, round_.online, round_.index) for round_ in rounds]
    without = decide_rounds(pool_plan, rounds, mode=mode)
    with_it = decide_rounds(pool_plan, rounds, mode=mode, diversity=0.0)
    tiny = decide_rounds(pool_plan, rounds, mode=mode, diversity=1e-12)
    for one, other, another in zip(without, with_it, tiny, strict=True):
        assert other.edge_of.tolist() == one.edge_of.tolist()
        assert another.edge_of.tolist() == one.edge_of.tolist()


def test_more_clients_serve_where_all_are_always_online(pool_plan):
    same, diverse = decided(pool_plan, 0.0), decided(pool_plan, 0.5)
    assert diverse[0].edge_of.tolist() == same[0].edge_of.tolist()
    assert len(who_served(diverse)) > 1.5 * len(who_served(same))
    more = decided(pool_plan, 5.0)
    assert len(who_served(more)) >= len(who_served(diverse))


def test_a_decision_says_what_it_costs_without_the_surcharge(pool_plan):
    diverse = decided(pool_plan, 2.0)
    rounds = renumbered([everybody(pool_plan.scenario)] * ROUNDS)
    records = [decision.record() for decision in diverse]
    assert check(pool_plan.scenario, records, rounds) == []
    assert all(decision.feasible for decision in diverse)
    best = min(decision.objective for decision in decided(pool_plan, 0.0))
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


class Charged(Policy):
    """Serves whom the test says, and keeps the surcharges that it is shown."""

    takes_surcharge = True

    def __init__(self) -> None:
        self.edge_of = np.zeros(0, dtype=np.int64)
        self.seen: list = []

    def decide(self, round_: Round) -> Answer:
        self.seen.append(None if round_.surcharge is None else round_.surcharge.tolist())
        return Answer(self.edge_of)


def surcharges(weight: float, *served: list[int]) -> list:
    """What a policy is shown in each round, and in one more, where these clients serve."""
    policy = Charged()
    diverse, scenario = Diverse(policy, weight), two_pairs().scenario
    for index, edge_of in enumerate([*served, [-1] * 4]):
        policy.edge_of = np.array(edge_of)
        decide_round(diverse, Round(scenario, np.ones(4, dtype=np.bool_), index))
    return policy.seen


def test_the_surcharge_counts_how_often_and_how_lately():
    """Half of the weight for the share of rounds, half for a mean in which a round counts half
    of the one after it."""
    first, _, third = surcharges(2.0, [0, -1, 0, -1], [0, 0, -1, -1])
    assert first is None
    assert third == pytest.approx([1 + 0.75, 0.5 + 0.5, 0.5 + 0.25, 0])
    seen = surcharges(2.0, [0, -1, 0, -1], [0, 0, -1, -1], *[[0, -1, -1, -1]] * 60)
    assert seen[-1] == pytest.approx([2.0, 1 / 62, 1 / 62, 0], abs=1e-9)


def test_deciding_alone_is_no_service():
    """A round may be asked about twice: only what came of a decision counts."""
    policy = Charged()
    policy.edge_of = np.zeros(4, dtype=np.int64)
    diverse, round_ = Diverse(policy, 1.0), everybody(two_pairs().scenario)
    for _ in range(3):
        diverse.decide(round_)
    assert policy.seen == [None] * 3


@pytest.mark.parametrize("weight", [-0.1, 0.0, math.nan, math.inf, -math.inf])
def test_a_weight_that_cannot_be(weight):
    with pytest.raises(StagewiseError, match=r"diversity = .*: must be a finite number above 0"):
        Diverse(Charged(), weight)


@pytest.mark.parametrize("method", ["repair", "ccu"])
def test_other_methods_do_not_take_it(method):
    made, round_ = random_case(0)
    with pytest.raises(StagewiseError) as error:
        decide(made, round_, method=method, diversity=0.5)
    assert str(error.value) == (
        "diversity = 0.5: needs a policy that takes surcharges on clients, as those that follow "
        f"the pool do; {method!r} does not"
    )
    without = decide(made, round_, method=method)
    assert decide(made, round_, method=method, diversity=0.0).edge_of.tolist() == (
        without.edge_of.tolist()
    )


def test_nobody_online_is_remembered_too():
    assert surcharges(1.0, [-1] * 4, [-1] * 4)[-1] == [0.0] * 4
    made = two_pairs()
    nobody = np.zeros(4, dtype=np.bool_)
    decisions = decide_rounds(made, [nobody, nobody], method="pool", diversity=1.0)
    assert [decision.assignment for decision in decisions] == [{}, {}]


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
        (
            ["--diversity=0.5", "--method=repair"],
            "takes surcharges on clients, as those that follow the pool do; 'repair'",
        ),
        (
            ["--diversity=0.5", "--method=ccu"],
            "takes surcharges on clients, as those that follow the pool do; 'ccu'",
        ),
    ],
)
def test_the_command_refuses(files, capsys, options, message):
    assert main(command(files, *options)) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1
