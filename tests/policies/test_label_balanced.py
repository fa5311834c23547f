"""Balance over rounds: what was served too little becomes cheaper, whatever the weights and costs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise import LabelBalanced, make_policy, run_rounds, solve
from stagewise.checker import check
from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.policies.policy import Policy
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round

ROUNDS = 12
SCENARIO = numeric(clients=60, edges=2, seed=3)


class Recorder(Policy):
    """Lets the clients of `turns` serve, one list a round, and keeps the surcharges it is given."""

    takes_surcharge = True

    def __init__(self, turns: list[list[int]]) -> None:
        self.turns, self.seen = turns, []

    def decide(self, round_: Round) -> Answer:
        self.seen.append(round_.surcharge)
        edge_of = np.full(len(round_.online), -1)
        links = round_.scenario.links
        for client in self.turns[round_.index]:
            edge_of[client] = links.edge[links.client == client][0]
        return Answer(edge_of)


def everybody(scenario, rounds: int) -> list[Round]:
    online = np.ones(len(scenario.clients), dtype=bool)
    return [Round(scenario, online, index) for index in range(rounds)]


def divergence(shares: np.ndarray, target: np.ndarray) -> float:
    shares = shares / shares.sum()
    held = shares > 0
    return float((shares[held] * np.log(shares[held] / target[held])).sum())


@given(st.lists(st.lists(st.integers(0, 59), min_size=1, max_size=8), min_size=1, max_size=5))
def test_the_surcharge_is_the_slope_of_the_divergence(turns: list[list[int]]) -> None:
    """By differences, from the labels served so far counted again."""
    recorder = Recorder([*turns, []])
    for _ in run_rounds(LabelBalanced(recorder, 2.0), everybody(SCENARIO, len(turns) + 1)):
        pass
    served = np.full(SCENARIO.labels, 1 / SCENARIO.labels)
    for clients in turns:
        labels = SCENARIO.clients.label_counts[sorted(set(clients))].sum(axis=0)
        served = 0.9 * served + labels / labels.sum()
    own = SCENARIO.clients.label_counts / SCENARIO.clients.data[:, None]
    shares, step = served / served.sum(), 1e-7
    slopes = np.array(
        [
            (divergence(shares + step * one, SCENARIO.target) - divergence(shares, SCENARIO.target))
            / step
            for one in own
        ]
    )
    np.testing.assert_allclose(
        recorder.seen[-1], 2.0 * (slopes - slopes.min()), rtol=1e-4, atol=1e-4
    )
    assert recorder.seen[-1].min() == 0


def test_nothing_is_charged_before_the_first_round_and_a_surcharge_is_added_to_what_is_there() -> (
    None
):
    recorder = Recorder([[0], [1]])
    given_ = np.linspace(0, 1, 60)
    rounds = [replace(round_, surcharge=given_) for round_ in everybody(SCENARIO, 2)]
    alone = Recorder([[0], [1]])
    for _ in run_rounds(LabelBalanced(recorder), rounds):
        pass
    for _ in run_rounds(LabelBalanced(alone), everybody(SCENARIO, 2)):
        pass
    assert alone.seen[0] is None
    np.testing.assert_array_equal(recorder.seen[0], given_)
    np.testing.assert_allclose(recorder.seen[1], alone.seen[1] + given_)


def test_rounds_together_are_closer_to_the_target_and_every_limit_is_kept() -> None:
    total = {}
    for name in ("pool-flexible", "pool-balanced"):
        off, paid = [], []
        for seed in range(4):
            scenario = numeric(clients=80, edges=3, seed=seed)
            rounds = bernoulli(scenario, ROUNDS, seed=seed)
            decisions = solve(scenario, rounds, name)
            assert check(scenario, [decision.record() for decision in decisions], rounds) == []
            assert all(decision.method == name for decision in decisions)
            served = sum(
                scenario.clients.label_counts[decision.edge_of >= 0].sum(axis=0)
                for decision in decisions
            )
            off.append(divergence(served.astype(float), scenario.target))
            paid.append(sum(decision.objective for decision in decisions))
        total[name] = np.mean(off), np.mean(paid)
    assert total["pool-balanced"][0] < 0.8 * total["pool-flexible"][0]
    assert total["pool-balanced"][1] < 1.2 * total["pool-flexible"][1]


def test_it_goes_on_from_its_state() -> None:
    rounds = bernoulli(SCENARIO, ROUNDS, seed=1)
    whole = [d.edge_of.tolist() for d in solve(SCENARIO, rounds, "pool-balanced")]
    first = make_policy("pool-balanced", SCENARIO)
    for _ in run_rounds(first, rounds[:5]):
        pass
    second = make_policy("pool-balanced", SCENARIO)
    second.restore(first.state())
    rest = [played.decision.edge_of.tolist() for played in run_rounds(second, rounds[5:])]
    assert rest == whole[5:]


def test_a_label_that_nobody_trains_does_not_cost_without_end() -> None:
    policy = LabelBalanced(Recorder([[]]))
    served = np.ones(SCENARIO.labels)
    served[0] = 0.0
    policy.restore({"served": served})
    [played] = run_rounds(policy, everybody(SCENARIO, 1))
    surcharge = policy.policy.seen[0]
    assert np.isfinite(surcharge).all() and surcharge.max() < 10
    assert not played.decision.assignment


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(StagewiseError, match="label balance: needs a policy that takes surcharges"):
        LabelBalanced(make_policy("fedcs", SCENARIO))
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(StagewiseError, match="weight"):
            LabelBalanced(Recorder([]), weight)
