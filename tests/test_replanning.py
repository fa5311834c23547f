"""Plan A again while rounds go by: each trigger, the lag, and never in a decision's way."""

import logging
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers import random_scenario
from plan_b_cases import plan_of
from stagewise.check import check_decisions
from stagewise.errors import StagewiseError
from stagewise.plans import Plan
from stagewise.replanning import InlineExecutor, Replanner, Triggers
from stagewise.world.estimator import rolling_estimate
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario

CLIENTS, WINDOW = 8, 4
FIRST = np.array([0, 0, 1, 1, -1, -1, -1, -1])
SECOND = np.array([-1, -1, -1, -1, 0, 0, 1, 1])


class ByHand(Executor):
    """Starts nothing; the test completes each order itself."""

    def __init__(self) -> None:
        self.orders: list[tuple[Future, Scenario, dict[str, Any]]] = []

    def submit(self, function, /, *arguments, **options):
        future: Future = Future()
        self.orders.append((future, arguments[0], options))
        return future


def system(probability: float = 0.75) -> Scenario:
    scenario = random_scenario(
        0, CLIENTS, 2, 2, limits=Limits(kld_max=9, data_min=1), coverage=1, isolated=0,
        capacity=(8, 8),
    )  # fmt: skip
    return replace(scenario.with_online_probability(np.full(CLIENTS, probability)), window=WINDOW)


def online(scenario: Scenario, *absent: int, **changes: np.ndarray) -> Round:
    mask = np.ones(CLIENTS, dtype=np.bool_)
    mask[list(absent)] = False
    return Round(scenario, mask, **changes)


@pytest.fixture
def scenario() -> Scenario:
    return system()


@pytest.fixture
def first(scenario) -> Plan:
    return plan_of(scenario, FIRST, seed=6)


def orders_of(plan: Plan, triggers: Triggers, rounds: list[Round]) -> list[tuple[int, str]]:
    """The orders when every plan is ready at once."""
    with Replanner(plan, triggers, executor=InlineExecutor()) as replanner:
        for round_ in rounds:
            replanner.decide(round_)
        return replanner.orders


def test_without_triggers_nothing_is_ordered(scenario, first):
    rounds = bernoulli(scenario, 12, 0)
    with Replanner(first, Triggers()) as replanner:
        made = [replanner.decide(round_) for round_ in rounds]
        assert (replanner.orders, replanner.adopted) == ([], [])
        assert replanner.plan is first
    for index, round_ in enumerate(rounds):
        assert made[index].edge_of.tolist() == first.decide(round_, index=index).edge_of.tolist()
        assert made[index].round == index


@pytest.mark.parametrize(
    ("every", "expected"), [(1, [0, 1, 2, 3, 4, 5, 6]), (3, [2, 5]), (7, [6]), (8, [])]
)
def test_every_so_many_rounds(scenario, first, every, expected):
    orders = orders_of(first, Triggers(every=every), [online(scenario)] * 7)
    assert orders == [(index, "every") for index in expected]


def planned_cost(plan: Plan) -> float:
    weights = plan.scenario.weights
    return weights.delay * plan.delay_s + weights.energy * plan.energy_j


def test_a_round_that_costs_too_much(scenario, first):
    """CPUs at a hundredth of their speed make a round slow; the rounds around it are as planned."""
    slow = online(scenario, cpu_hz=scenario.clients.cpu_hz / 100)
    cost = first.decide(slow).objective / planned_cost(first)
    assert cost > 2
    rounds = [online(scenario), slow, online(scenario)]
    assert orders_of(first, Triggers(cost_factor=0.99 * cost), rounds)[:1] == [(1, "cost")]
    assert orders_of(first, Triggers(cost_factor=1.01 * cost), rounds) == []
    # With everybody online a round costs what the plan does, to the last digit.
    assert orders_of(first, Triggers(cost_factor=1 - 1e-6), rounds[:1]) == [(0, "cost")]
    assert orders_of(first, Triggers(cost_factor=1 + 1e-6), rounds[:1]) == []


@pytest.mark.parametrize("factor", [3.0, 1 / 3.0])
def test_gains_that_changed(scenario, first, factor):
    changed = online(scenario, gain=scenario.links.gain * factor)
    rounds = [online(scenario), changed]
    assert orders_of(first, Triggers(change_factor=2.99), rounds) == [(1, "change")]
    assert orders_of(first, Triggers(change_factor=3.01), rounds) == []


@pytest.mark.parametrize("factor", [3.0, 1 / 3.0])
def test_cpus_that_changed(scenario, first, factor):
    changed = online(scenario, cpu_hz=scenario.clients.cpu_hz * factor)
    rounds = [online(scenario), changed]
    assert orders_of(first, Triggers(change_factor=2.99), rounds) == [(1, "change")]
    assert orders_of(first, Triggers(change_factor=3.01), rounds) == []


def test_only_the_long_term_clients_count_and_only_in_the_median(scenario, first):
    cpu_hz = scenario.clients.cpu_hz.copy()
    cpu_hz[4:] *= 50
    assert orders_of(first, Triggers(change_factor=1.5), [online(scenario, cpu_hz=cpu_hz)]) == []
    cpu_hz[0] *= 50  # one of four
    assert orders_of(first, Triggers(change_factor=1.5), [online(scenario, cpu_hz=cpu_hz)]) == []
    cpu_hz[1:3] *= 50  # three of four
    rounds = [online(scenario, cpu_hz=cpu_hz)]
    assert orders_of(first, Triggers(change_factor=1.5), rounds) == [(0, "change")]


def test_a_change_is_measured_from_what_the_plan_was_made_for(scenario, first):
    """Once a plan for the new gains is in force they are no change any more."""
    changed = online(scenario, gain=scenario.links.gain * 3)
    assert orders_of(first, Triggers(change_factor=2), [changed] * 5) == [(0, "change")]
    back = [changed, changed, online(scenario)]
    assert orders_of(first, Triggers(change_factor=2), back) == [(0, "change"), (2, "change")]


def test_absence_over_a_window(scenario, first):
    """Expected 0.75. In the first window all are there (off by 0.25), then two of four are not."""
    here, half = online(scenario), online(scenario, 0, 1)
    assert orders_of(first, Triggers(absence_gap=0.24), [here] * 4) == [(3, "absence")]
    assert orders_of(first, Triggers(absence_gap=0.24), [here] * 3) == []
    assert orders_of(first, Triggers(absence_gap=0.26), [here] * 9) == []
    assert orders_of(first, Triggers(absence_gap=0.24), [half] * 4) == [(3, "absence")]
    # Three of four present is what was expected; those outside the plan do not count.
    expected = online(scenario, 0, 4, 5, 6)
    assert orders_of(first, Triggers(absence_gap=0.01), [expected] * 12) == []


def test_absence_is_looked_at_again_only_after_another_window(scenario, first):
    """The new plan expects more presence, but the newest window must first be its own."""
    executor = ByHand()
    replanner = Replanner(first, Triggers(absence_gap=0.2), executor=executor)
    for _ in range(4):
        replanner.decide(online(scenario))
    assert replanner.orders == [(3, "absence")]
    executor.orders[0][0].set_result(first)
    for _ in range(3):
        replanner.decide(online(scenario, 0, 1, 2, 3))
    assert len(replanner.orders) == 1
    replanner.decide(online(scenario, 0, 1, 2, 3))
    assert replanner.orders[1:] == [(7, "absence")]


def test_a_plan_of_nobody_has_nothing_that_could_change(scenario):
    empty = plan_of(scenario, np.full(CLIENTS, -1))
    changed = online(scenario, gain=scenario.links.gain * 30)
    assert orders_of(empty, Triggers(change_factor=1.5, absence_gap=0.1), [changed] * 6) == []


def test_a_decision_never_waits(scenario, first):
    """With the planner standing still every round is decided from the old plan."""
    executor = ByHand()
    replanner = Replanner(first, Triggers(every=2), executor=executor)
    for index in range(30):
        made = replanner.decide(online(scenario))
        assert made.edge_of.tolist() == FIRST.tolist()
        assert made.round == index
    # Only one plan is under way at a time.
    assert replanner.orders == [(1, "every")]
    assert len(executor.orders) == 1
    executor.orders[0][0].set_result(plan_of(scenario, SECOND))
    assert replanner.decide(online(scenario)).edge_of.tolist() == SECOND.tolist()
    assert replanner.adopted == [30]
    # The round that adopts it may order the next one.
    assert replanner.orders == [(1, "every"), (30, "every")]


@pytest.mark.parametrize("lag", [1, 2, 5])
def test_a_plan_takes_effect_after_the_lag(scenario, first, lag):
    executor = ByHand()
    replanner = Replanner(first, Triggers(every=3), executor=executor, lag=lag)
    used = []
    for _ in range(3 + lag):
        used.append(replanner.decide(online(scenario)).edge_of.tolist())
        if executor.orders and not executor.orders[0][0].done():
            executor.orders[0][0].set_result(plan_of(scenario, SECOND))
    assert replanner.orders[0] == (2, "every")
    assert replanner.adopted == [2 + lag]
    assert used == [FIRST.tolist()] * (2 + lag) + [SECOND.tolist()]


def test_what_a_plan_is_made_with(scenario, first):
    """The estimates, CPUs and gains of the round that ordered it, whatever came after."""
    executor = ByHand()
    replanner = Replanner(
        first, Triggers(every=6), method="paper", risk="sampled", executor=executor
    )
    rng = np.random.default_rng(0)
    rounds = [
        Round(
            scenario,
            rng.random(CLIENTS) < 0.6,
            cpu_hz=scenario.clients.cpu_hz * rng.uniform(0.5, 2, CLIENTS),
            gain=scenario.links.gain * rng.uniform(0.5, 2, len(scenario.links)),
        )
        for _ in range(10)
    ]
    for round_ in rounds:
        replanner.decide(round_)
    ((_, known, options),) = executor.orders
    assert options == {"method": "paper", "risk": "sampled", "seed": 6}
    np.testing.assert_array_equal(known.clients.cpu_hz, rounds[5].cpu_hz)
    np.testing.assert_array_equal(known.links.gain, rounds[5].gain)
    # One full window of four among the six rounds seen, and what was known before as the oldest.
    seen = np.array([round_.online for round_ in rounds[2:6]])
    expected = rolling_estimate(np.vstack([np.full((4, CLIENTS), 0.75), seen]), WINDOW)
    np.testing.assert_allclose(known.clients.online_probability, expected)
    np.testing.assert_allclose(expected, (0.75 + 2 * seen.mean(axis=0)) / 3)
    assert known.costs.delay_s == pytest.approx(rounds[5].costs.delay_s)
    # The scenario of the rounds stays as it was.
    assert scenario.clients.online_probability.tolist() == [0.75] * CLIENTS
    assert known.sha256 != scenario.sha256


def test_a_new_plan_decides_rounds_of_the_old_scenario(scenario, first):
    changed = online(scenario, gain=scenario.links.gain * 2)
    with Replanner(first, Triggers(every=1), executor=InlineExecutor()) as replanner:
        rounds = [changed, online(scenario, 0), changed]
        made = [replanner.decide(round_) for round_ in rounds]
        assert replanner.adopted == [1, 2]
        assert replanner.plan.scenario is scenario
    assert check_decisions(scenario, rounds, [decision.record() for decision in made]) == []


def test_a_plan_that_fails_leaves_the_old_one(scenario, first, caplog):
    executor = ByHand()
    replanner = Replanner(first, Triggers(every=2), executor=executor)
    for _ in range(2):
        replanner.decide(online(scenario))
    executor.orders[0][0].set_exception(MemoryError("too large"))
    with caplog.at_level(logging.WARNING):
        assert replanner.decide(online(scenario)).edge_of.tolist() == FIRST.tolist()
    assert [record.getMessage() for record in caplog.records] == [
        "the plan ordered in round 1 failed: too large"
    ]
    assert replanner.plan is first
    assert replanner.adopted == []
    # The next one is ordered when it is due, and works.
    replanner.decide(online(scenario))
    assert replanner.orders == [(1, "every"), (3, "every")]
    executor.orders[1][0].set_result(plan_of(scenario, SECOND))
    assert replanner.decide(online(scenario)).edge_of.tolist() == SECOND.tolist()


def test_a_planner_of_an_unknown_name_fails_without_harm(scenario, caplog):
    plan = plan_of(scenario, FIRST, method="somebody else's")
    with Replanner(plan, Triggers(every=1), executor=InlineExecutor()) as replanner:
        for _ in range(3):
            assert replanner.decide(online(scenario)).edge_of.tolist() == FIRST.tolist()
    assert "must be one of paper, " in caplog.text


def test_a_pool_that_takes_no_orders_stops_no_round(scenario, first, caplog):
    """As a process pool does once one of its workers was killed."""

    class Broken(Executor):
        def submit(self, function, /, *arguments, **options):
            raise BrokenExecutor("a worker died")

    replanner = Replanner(first, Triggers(every=2), executor=Broken())
    for index in range(4):
        assert replanner.decide(online(scenario)).round == index
    assert replanner.plan is first
    assert replanner.orders == [(1, "every"), (3, "every")]
    assert [record.getMessage() for record in caplog.records] == [
        "the plan ordered in round 1 failed: a worker died",
        "the plan ordered in round 3 failed: a worker died",
    ]


def test_rounds_go_on_after_close(scenario, first):
    replanner = Replanner(first, Triggers(every=1))
    replanner.close()
    assert replanner.decide(online(scenario)).edge_of.tolist() == FIRST.tolist()


def test_a_cancelled_plan_is_no_plan(scenario, first):
    executor = ByHand()
    replanner = Replanner(first, Triggers(every=1), executor=executor)
    replanner.decide(online(scenario))
    executor.orders[0][0].cancel()
    executor.orders[0][0].set_running_or_notify_cancel()
    assert replanner.decide(online(scenario)).edge_of.tolist() == FIRST.tolist()
    assert replanner.plan is first


def test_close_gives_up_what_is_under_way(scenario, first):
    executor = ByHand()
    replanner = Replanner(first, Triggers(every=1), executor=executor)
    replanner.decide(online(scenario))
    replanner.close()
    assert executor.orders[0][0].cancelled()
    replanner.close()
    with Replanner(first, Triggers()) as unused:
        pass
    unused.close()


def test_the_default_thread_plans_by_itself(scenario, first):
    """No clock: rounds go on until the plan is there."""
    with Replanner(first, Triggers(every=1), method="paper") as replanner:
        for _ in range(100_000):
            replanner.decide(online(scenario))
            if replanner.adopted:
                break
        assert replanner.adopted
        assert replanner.plan.method == "paper"
        assert replanner.plan is not first


def test_the_options_of_plan_b_arrive(scenario, first):
    with Replanner(first, Triggers()) as replanner:
        made = replanner.decide(online(scenario), method="repair", mode="flexible")
        expected = first.decide(online(scenario), method="repair", mode="flexible")
        assert made.method == "repair"
        assert made.edge_of.tolist() == expected.edge_of.tolist()
        # A round may also be a list of ids.
        assert replanner.decide(["c0", "c2"]).assignment == {"c0": "es0", "c2": "es1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every = 0: must be at least 1"),
        ({"every": 1.5}, "every = 1.5: must be a whole number"),
        ({"cost_factor": 0}, "cost_factor = 0: must be a finite number above 0"),
        ({"cost_factor": float("nan")}, "cost_factor = nan"),
        ({"change_factor": 0.9}, "change_factor = 0.9: must be a finite number of at least 1"),
        ({"absence_gap": -0.1}, "absence_gap = -0.1"),
        ({"absence_gap": float("inf")}, "absence_gap = inf"),
    ],
)
def test_triggers_that_cannot_be(options, message):
    with pytest.raises(StagewiseError, match=message):
        Triggers(**options)


def test_a_lag_that_cannot_be(first):
    with pytest.raises(StagewiseError, match="lag = 0: must be at least 1"):
        Replanner(first, Triggers(), lag=0)


def test_the_inline_executor_carries_results_and_exceptions():
    executor = InlineExecutor()
    assert executor.submit(divmod, 7, 2).result() == (3, 1)
    assert isinstance(executor.submit(divmod, 1, 0).exception(), ZeroDivisionError)
