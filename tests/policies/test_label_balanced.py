"""Balance over rounds: what was served too little becomes cheaper, and a round costs little more."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stagewise import LabelBalanced, PlanPolicy, Weights, make_policy, plan, run_rounds, solve
from stagewise.checker import check
from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.policies.label_balanced import label_surcharge
from stagewise.policies.policy import Policy
from stagewise.problem.evaluation import evaluate
from stagewise.problem.statement import still_there
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round

ROUNDS = 12
SCENARIO = numeric(clients=60, edges=2, seed=3)


class Turns(Policy):
    """Lets the clients of `turns` serve, one list a round."""

    takes_surcharge = True

    def __init__(self, turns: list[list[int]]) -> None:
        self.turns = turns

    def decide(self, round_: Round) -> Answer:
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
    policy = LabelBalanced(Turns(turns))
    for _ in run_rounds(policy, everybody(SCENARIO, len(turns))):
        pass
    served = np.full(SCENARIO.labels, 1 / SCENARIO.labels)
    for clients in turns:
        labels = SCENARIO.clients.label_counts[sorted(set(clients))].sum(axis=0)
        served = 0.9 * served + labels / labels.sum()
    np.testing.assert_allclose(policy.state()["served"], served)
    own = SCENARIO.clients.label_counts / SCENARIO.clients.data[:, None]
    shares, step = served / served.sum(), 1e-7
    slopes = np.array(
        [
            (divergence(shares + step * one, SCENARIO.target) - divergence(shares, SCENARIO.target))
            / step
            for one in own
        ]
    )
    surcharge = label_surcharge(SCENARIO, served)
    np.testing.assert_allclose(surcharge, slopes - slopes.min(), rtol=1e-4, atol=1e-4)
    assert surcharge.min() == 0


@given(
    seed=st.integers(0, 10**6),
    delay=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    share=st.sampled_from([0.0, 0.01, 0.05, 0.3]),
    weight=st.sampled_from([0.1, 1.0, 20.0]),
    mode=st.sampled_from(["flexible", "strict"]),
)
@settings(max_examples=40, deadline=None)
def test_balance_never_costs_more_than_its_share(
    seed: int, delay: float, share: float, weight: float, mode: str
) -> None:
    """In the same round, from any labels served before; nobody is slower, and every limit is kept."""
    followed = _plan(delay)
    scenario = followed.scenario
    rng = np.random.default_rng(seed)
    round_ = bernoulli(scenario, 1, seed=seed)[0]
    inner = PlanPolicy(followed, "pool", mode)
    balanced = LabelBalanced(inner, weight, share)
    balanced.restore({"served": rng.dirichlet(np.full(scenario.labels, 0.5))})
    plain, answer = inner.decide(round_), balanced.decide(round_)
    before, after = (evaluate(round_, one.edge_of) for one in (plain, answer))
    if before.failing.any():
        np.testing.assert_array_equal(answer.edge_of, plain.edge_of)
        return
    assert after.cost <= (1 + share) * before.cost
    assert after.delay_s <= before.delay_s * (1 + 1e-9)
    assert not after.failing.any() and not after.crowded.any()
    if mode == "strict":
        pinned = still_there(round_, inner.plan.edge_of)
        np.testing.assert_array_equal(answer.edge_of[pinned >= 0], pinned[pinned >= 0])


@cache
def _plan(delay: float):
    scenario = replace(SCENARIO, weights=Weights(delay=delay, energy=1 - delay))
    return plan(scenario, method="pool")


def test_where_only_delay_costs_balance_is_free() -> None:
    """A further client costs nothing there until it is the slowest."""
    followed = _plan(1.0)
    scenario = followed.scenario
    rounds = bernoulli(scenario, ROUNDS, seed=2)
    plain, balanced = (
        solve(scenario, rounds, make_policy(name, scenario, plan=followed))
        for name in ("pool-flexible", "pool-balanced")
    )
    for one, other in zip(plain, balanced, strict=True):
        assert other.objective <= one.objective * (1 + 1e-9)
    off = [
        divergence(
            sum(scenario.clients.label_counts[one.edge_of >= 0].sum(axis=0) for one in decisions),
            scenario.target,
        )
        for decisions in (plain, balanced)
    ]
    assert off[1] < 0.95 * off[0]  # little is fast enough here


def test_a_surcharge_that_a_round_has_counts_besides() -> None:
    """As diversity's does: whom it keeps out does not come in for balance."""
    [round_] = bernoulli(SCENARIO, 1, seed=4)
    inner = make_policy("pool-flexible", SCENARIO)
    served = np.linspace(1, 4, SCENARIO.labels)
    policy = LabelBalanced(inner, 5.0, 1.0)
    policy.restore({"served": served})
    plain, free = inner.decide(round_).edge_of, policy.decide(round_).edge_of
    assert ((free >= 0) & (plain < 0)).any()
    kept_out = round_.surcharged(np.where(plain < 0, 1e3, 0.0))
    assert not ((policy.decide(kept_out).edge_of >= 0) & (plain < 0)).any()


def test_a_round_that_breaks_limits_stays_as_it_is() -> None:
    scenario = replace(SCENARIO, limits=replace(SCENARIO.limits, data_min=10**6))
    [round_] = bernoulli(scenario, 1, seed=4)
    inner = make_policy("pool-flexible", scenario)
    policy = LabelBalanced(inner, 5.0, 1.0)
    policy.restore({"served": np.linspace(1, 4, scenario.labels)})
    np.testing.assert_array_equal(policy.decide(round_).edge_of, inner.decide(round_).edge_of)


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
    assert total["pool-balanced"][0] < 0.9 * total["pool-flexible"][0]
    assert total["pool-balanced"][1] < 1.02 * total["pool-flexible"][1]


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
    served = np.ones(SCENARIO.labels)
    served[0] = 0.0
    surcharge = label_surcharge(SCENARIO, served)
    assert np.isfinite(surcharge).all() and surcharge.max() < 10


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(StagewiseError, match="label balance: needs a policy that takes surcharges"):
        LabelBalanced(make_policy("fedcs", SCENARIO))
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(StagewiseError, match="weight"):
            LabelBalanced(Turns([]), weight)
    for share in (-0.1, float("nan"), float("inf")):
        with pytest.raises(StagewiseError, match="share"):
            LabelBalanced(Turns([]), share=share)
    strict = Turns([])
    strict.mode = "strict"
    with pytest.raises(StagewiseError, match="label balance: needs to know the plan"):
        LabelBalanced(strict)
