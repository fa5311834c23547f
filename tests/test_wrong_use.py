"""Slips at the Python API: one line that names the value and the rule, never another traceback."""

import numpy as np
import pytest

import stagewise
from stagewise import Answer, Policy, Remedied, Replanned, StagewiseError, Triggers

SCENARIO = stagewise.generate.numeric(clients=12, edges=2, seed=0)
ROUNDS = stagewise.participation.bernoulli(SCENARIO, rounds=2)
OTHER = stagewise.generate.numeric(clients=9, edges=2, seed=0)


class Faulty(Policy):
    """Answers whatever it is told to."""

    def __init__(self, answer):
        self.answer = answer

    def decide(self, round_):
        return self.answer


def planned():
    return stagewise.plan(SCENARIO, method="local-search", seconds=0.01)


@pytest.mark.parametrize("rounds", [ROUNDS[0], 7, None, "online.jsonl", np.ones(12, bool), [None]])
@pytest.mark.parametrize("ask", ["decide", "solve", "compare", "check", "simulate"])
def test_what_is_no_sequence_of_rounds(ask, rounds):
    calls = {
        "decide": lambda: stagewise.decide(planned(), rounds),
        "solve": lambda: stagewise.solve(SCENARIO, rounds, "c2e-assoc-only"),
        "compare": lambda: stagewise.compare(SCENARIO, rounds, methods=["c2e-assoc-only"]),
        "check": lambda: stagewise.check(SCENARIO, [], rounds),
        "simulate": lambda: stagewise.simulate(SCENARIO, "digits", participation=rounds, rounds=1),
    }
    with pytest.raises(StagewiseError, match="must be"):
        calls[ask]()


@pytest.mark.parametrize(
    "call",
    [
        lambda: stagewise.plan("s.json"),
        lambda: stagewise.plan(SCENARIO, method=["pool"]),
        lambda: stagewise.solve("s.json", ROUNDS),
        lambda: stagewise.decide("plan.json", ROUNDS),
        lambda: stagewise.solve(SCENARIO, ROUNDS, Faulty),
        lambda: Remedied("fedcs", "drop"),
        lambda: Replanned(stagewise.PlanPolicy(planned()), None),
        lambda: stagewise.Round("s.json", np.ones(12, bool)),
    ],
)
def test_one_thing_in_the_place_of_another(call):
    with pytest.raises(StagewiseError, match="must be"):
        call()


def test_rounds_of_another_system():
    foreign = stagewise.participation.bernoulli(OTHER, rounds=2)
    for call in (
        lambda: stagewise.solve(SCENARIO, foreign, "c2e-assoc-only"),
        lambda: stagewise.compare(SCENARIO, foreign, methods=["c2e-assoc-only"]),
        lambda: stagewise.check(SCENARIO, [], foreign),
        lambda: stagewise.simulate(SCENARIO, "digits", participation=foreign, rounds=1),
    ):
        with pytest.raises(StagewiseError, match="must be a round of this very scenario"):
            call()


@pytest.mark.parametrize("answer", [np.zeros(12), None, Answer(np.full(12, 7)), Answer([0])])
@pytest.mark.parametrize("remedy", ["drop", "reweight"])
def test_an_answer_that_breaks_the_contract_under_a_remedy(answer, remedy):
    policy = Remedied(Faulty(answer), remedy)
    with pytest.raises(StagewiseError, match="method 'Faulty', round 0: "):
        stagewise.solve(SCENARIO, ROUNDS, policy)


def test_rounds_that_can_be_read_once_are_compared_in_full():
    summaries = stagewise.compare(SCENARIO, iter(ROUNDS), methods=["c2e-assoc-only", "fedcs"])
    assert [summary.rounds for summary in summaries] == [2, 2]


def test_check_takes_what_decide_takes_and_knows_rounds_by_their_index():
    masks = [round_.online for round_ in ROUNDS]
    decisions = stagewise.solve(SCENARIO, masks, "c2e-assoc-only")
    assert stagewise.check(SCENARIO, decisions, masks) == []
    late = [stagewise.Round(SCENARIO, masks[0], index=7)]
    decided = stagewise.solve(SCENARIO, late, "c2e-assoc-only")
    assert stagewise.check(SCENARIO, decided, late) == []
    assert stagewise.check(SCENARIO, decided, ROUNDS) != []


def test_triggers_are_those_of_replanned():
    assert Replanned(stagewise.PlanPolicy(planned()), Triggers(every=3)).triggers.every == 3


@pytest.mark.parametrize("wrong", [-2, 2**31])
def test_an_answer_with_an_edge_that_cannot_be(wrong):
    rule = rf"^answer\.edge_of\[1\] = {wrong}: must be the number of an edge, or -1$"
    with pytest.raises(StagewiseError, match=rule):
        stagewise.Answer(np.array([0, wrong]))
