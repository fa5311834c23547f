"""Plan A again while rounds go by: each trigger, the delay, what is kept and what is restored."""

import logging
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers import InlineExecutor, decide_round, random_scenario, renumbered
from plan_b_cases import decide, plan_of
from stagewise.checker import check
from stagewise.deciding import decide as decide_rounds
from stagewise.deciding import solve
from stagewise.decisions import Decision
from stagewise.errors import StagewiseError
from stagewise.plans import Plan
from stagewise.policies.plan_policy import PlanPolicy
from stagewise.policies.policy import Policy
from stagewise.policies.replanned import Replanned, Triggers
from stagewise.runs.checkpoint import state_from_arrays, state_to_arrays
from stagewise.world.estimator import rolling_estimate
from stagewise.world.forecasts import FORECASTS, MarkovForecast, make_forecast
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
    return replace(scenario.as_of(online_probability=np.full(CLIENTS, probability)), window=WINDOW)


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
    policy = replanned(plan, triggers, executor=InlineExecutor())
    solve(plan.scenario, renumbered(rounds), policy)
    return policy.orders


def replanned(plan: Plan, triggers: Triggers, **options: Any) -> Replanned:
    return Replanned(PlanPolicy(plan, mode="strict"), triggers, **options)


class Playing:
    """Plays one round after the other, as the loop does."""

    def __init__(self, policy: Policy, first: int = 0) -> None:
        self.policy, self.index = policy, first

    def decide(self, round_: Round) -> Decision:
        made = decide_round(self.policy, replace(round_, index=self.index))
        self.index += 1
        return made


def test_without_triggers_nothing_is_ordered(scenario, first):
    rounds = bernoulli(scenario, 12, 0)
    policy = replanned(first, Triggers())
    made = solve(scenario, rounds, policy)
    assert (policy.orders, policy.adopted) == ([], [])
    assert policy.plan is first
    for index, round_ in enumerate(rounds):
        assert made[index].edge_of.tolist() == decide(first, round_, index=index).edge_of.tolist()
        assert made[index].round is round_


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
    cost = decide(first, slow).objective / planned_cost(first)
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
    policy = replanned(first, Triggers(absence_gap=0.2), executor=executor, waits=False)
    playing = Playing(policy)
    for _ in range(4):
        playing.decide(online(scenario))
    assert policy.orders == [(3, "absence")]
    executor.orders[0][0].set_result(first)
    for _ in range(3):
        playing.decide(online(scenario, 0, 1, 2, 3))
    assert len(policy.orders) == 1
    playing.decide(online(scenario, 0, 1, 2, 3))
    assert policy.orders[1:] == [(7, "absence")]


def test_a_plan_of_nobody_has_nothing_that_could_change(scenario):
    empty = plan_of(scenario, np.full(CLIENTS, -1))
    changed = online(scenario, gain=scenario.links.gain * 30)
    assert orders_of(empty, Triggers(change_factor=1.5, absence_gap=0.1), [changed] * 6) == []


def test_a_decision_never_waits(scenario, first):
    """With the planner standing still every round is decided from the old plan."""
    executor = ByHand()
    policy = replanned(first, Triggers(every=2), executor=executor, waits=False)
    playing = Playing(policy)
    for index in range(30):
        made = playing.decide(online(scenario))
        assert made.edge_of.tolist() == FIRST.tolist()
        assert made.round.index == index
    # Only one plan is under way at a time.
    assert policy.orders == [(1, "every")]
    assert len(executor.orders) == 1
    executor.orders[0][0].set_result(plan_of(scenario, SECOND))
    assert playing.decide(online(scenario)).edge_of.tolist() == SECOND.tolist()
    assert policy.adopted == [30]
    # The round that adopts it may order the next one.
    assert policy.orders == [(1, "every"), (30, "every")]


@pytest.mark.parametrize("delay", [1, 2, 5])
def test_a_plan_takes_effect_after_the_delay(scenario, first, delay):
    executor = ByHand()
    policy = replanned(first, Triggers(every=3), executor=executor, delay=delay, waits=False)
    playing = Playing(policy)
    used = []
    for _ in range(3 + delay):
        used.append(playing.decide(online(scenario)).edge_of.tolist())
        if executor.orders and not executor.orders[0][0].done():
            executor.orders[0][0].set_result(plan_of(scenario, SECOND))
    assert policy.orders[0] == (2, "every")
    assert policy.adopted == [2 + delay]
    assert used == [FIRST.tolist()] * (2 + delay) + [SECOND.tolist()]


def test_what_a_plan_is_made_with(scenario, first):
    """The estimates, CPUs and gains of the round that ordered it, whatever came after."""
    executor = ByHand()
    policy = replanned(
        first, Triggers(every=6), method="paper", risk="sampled", executor=executor, waits=False
    )
    playing = Playing(policy)
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
        playing.decide(round_)
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


@pytest.mark.parametrize("name", FORECASTS)
@pytest.mark.parametrize(
    ("triggers", "ordered_after", "horizon"),
    [(Triggers(every=6), 6, 6), (Triggers(cost_factor=1e-9), 1, WINDOW)],
)
def test_a_plan_is_made_by_the_forecast(scenario, first, name, triggers, ordered_after, horizon):
    """For the mean over the rounds that it will be in force, as far as that is known."""
    executor = ByHand()
    policy = replanned(
        first, triggers, forecast=name, round_seconds=7200.0, executor=executor, waits=False
    )
    prior = scenario.clients.online_probability
    expected = make_forecast(name, prior, window=WINDOW, round_seconds=7200.0)
    playing = Playing(policy)
    for round_ in bernoulli(scenario, ordered_after, 5):
        playing.decide(round_)
        expected.observe(round_.online)
    ((_, known, _),) = executor.orders
    likely = expected.mean_probability(horizon).tolist()
    assert known.clients.online_probability.tolist() == likely


def test_a_forecast_of_ones_own_may_have_seen_rounds_before(scenario, first):
    forecast = MarkovForecast(np.full(CLIENTS, 0.5))
    for _ in range(50):
        forecast.observe(np.arange(CLIENTS) > 0)
    executor = ByHand()
    policy = replanned(first, Triggers(every=1), forecast=forecast, executor=executor, waits=False)
    Playing(policy).decide(online(scenario, 0))
    ((_, known, _),) = executor.orders
    assert known.clients.online_probability[0] < 0.1 < 0.9 < known.clients.online_probability[1]


@pytest.mark.parametrize("name", FORECASTS)
def test_what_was_seen_is_restored(scenario, first, name):
    """The trigger of absence looks back over a window, whatever the forecast keeps."""
    rounds = renumbered(bernoulli(scenario, 11, 2))
    triggers = Triggers(absence_gap=0.05)

    def fresh() -> Replanned:
        return replanned(first, triggers, forecast=name, executor=InlineExecutor())

    whole, stopped, resumed = fresh(), fresh(), fresh()
    for round_ in rounds:
        decide_round(whole, round_)
    for round_ in rounds[:3]:
        decide_round(stopped, round_)
    resumed.restore(state_from_arrays(*state_to_arrays(stopped.state())))
    for round_ in rounds[3:]:
        decide_round(resumed, round_)
    assert resumed.orders == whole.orders
    assert whole.orders
    left, right = (state_to_arrays(policy.state()) for policy in (whole, resumed))
    assert left[0] == right[0]
    for array, other in zip(left[1].values(), right[1].values(), strict=True):
        np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize(
    ("forecast", "message"),
    [
        ("arima", "forecast = 'arima': must be one of rolling, markov, time-of-day, mixture"),
        (None, "forecast = None: must be one of rolling"),
        (MarkovForecast([0.5, 0.5]), "forecast: is for 2 clients: must be for 8"),
    ],
)
def test_a_forecast_that_cannot_be(first, forecast, message):
    with pytest.raises(StagewiseError, match=message):
        replanned(first, Triggers(), forecast=forecast)


def test_a_new_plan_decides_rounds_of_the_old_scenario(scenario, first):
    changed = online(scenario, gain=scenario.links.gain * 2)
    policy = replanned(first, Triggers(every=1), executor=InlineExecutor())
    rounds = renumbered([changed, online(scenario, 0), changed])
    made = solve(scenario, rounds, policy)
    assert policy.adopted == [1, 2]
    assert policy.plan.scenario is scenario
    assert check(scenario, [decision.record() for decision in made], rounds) == []


def test_a_plan_that_fails_leaves_the_old_one(scenario, first, caplog):
    executor = ByHand()
    policy = replanned(first, Triggers(every=2), executor=executor, waits=False)
    playing = Playing(policy)
    for _ in range(2):
        playing.decide(online(scenario))
    executor.orders[0][0].set_exception(MemoryError("too large"))
    with caplog.at_level(logging.WARNING):
        assert playing.decide(online(scenario)).edge_of.tolist() == FIRST.tolist()
    assert [record.getMessage() for record in caplog.records] == [
        "the plan ordered in round 1 failed: too large"
    ]
    assert policy.plan is first
    assert policy.adopted == []
    # The next one is ordered when it is due, and works.
    playing.decide(online(scenario))
    assert policy.orders == [(1, "every"), (3, "every")]
    executor.orders[1][0].set_result(plan_of(scenario, SECOND))
    assert playing.decide(online(scenario)).edge_of.tolist() == SECOND.tolist()


def test_a_planner_of_an_unknown_name_fails_without_harm(scenario, caplog):
    plan = plan_of(scenario, FIRST, method="somebody else's")
    playing = Playing(replanned(plan, Triggers(every=1), executor=InlineExecutor()))
    for _ in range(3):
        assert playing.decide(online(scenario)).edge_of.tolist() == FIRST.tolist()
    assert "must be one of paper, " in caplog.text


def test_a_pool_that_takes_no_orders_stops_no_round(scenario, first, caplog):
    """As a process pool does once one of its workers was killed."""

    class Broken(Executor):
        def submit(self, function, /, *arguments, **options):
            raise BrokenExecutor("a worker died")

    policy = replanned(first, Triggers(every=2), executor=Broken())
    playing = Playing(policy)
    for index in range(4):
        assert playing.decide(online(scenario)).round.index == index
    assert policy.plan is first
    assert policy.orders == [(1, "every"), (3, "every")]
    assert [record.getMessage() for record in caplog.records] == [
        "the plan ordered in round 1 failed: a worker died",
        "the plan ordered in round 3 failed: a worker died",
    ]


def test_rounds_go_on_after_close(scenario, first):
    policy = replanned(first, Triggers(every=1))
    policy.close()
    playing = Playing(policy)
    assert playing.decide(online(scenario)).edge_of.tolist() == FIRST.tolist()


def test_a_cancelled_plan_is_no_plan(scenario, first):
    executor = ByHand()
    policy = replanned(first, Triggers(every=1), executor=executor, waits=False)
    playing = Playing(policy)
    playing.decide(online(scenario))
    executor.orders[0][0].cancel()
    executor.orders[0][0].set_running_or_notify_cancel()
    assert playing.decide(online(scenario)).edge_of.tolist() == FIRST.tolist()
    assert policy.plan is first


def test_close_gives_up_what_is_under_way(scenario, first):
    executor = ByHand()
    policy = replanned(first, Triggers(every=1), executor=executor, waits=False)
    playing = Playing(policy)
    playing.decide(online(scenario))
    policy.close()
    assert executor.orders[0][0].cancelled()
    policy.close()
    replanned(first, Triggers()).close()


def test_the_default_thread_plans_by_itself(scenario, first):
    """No clock: rounds go on until the plan is there."""
    policy = replanned(first, Triggers(every=1), method="paper", waits=False)
    playing = Playing(policy)
    for _ in range(100_000):
        playing.decide(online(scenario))
        if policy.adopted:
            break
    assert policy.adopted
    assert policy.plan.method == "paper"
    assert policy.plan is not first
    policy.close()


def test_the_options_of_plan_b_stay(scenario, first):
    """`decide` with triggers follows each new plan by the same method and mode."""
    rounds = renumbered([online(scenario)] * 4)
    made = decide_rounds(
        first, rounds, method="repair", mode="flexible", replanning=Triggers(every=10)
    )
    expected = decide_rounds(first, rounds, method="repair", mode="flexible")
    assert [d.method for d in made] == ["repair"] * 4
    assert [d.edge_of.tolist() for d in made] == [d.edge_of.tolist() for d in expected]
    # A round may also be a list of ids.
    (by_ids,) = decide_rounds(first, [["c0", "c2"]], mode="strict", replanning=Triggers(every=9))
    assert by_ids.assignment == {"c0": "es0", "c2": "es1"}


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


def test_a_delay_that_cannot_be(first):
    with pytest.raises(StagewiseError, match="delay = 0: must be at least 1"):
        replanned(first, Triggers(), delay=0)


def test_a_change_of_measured_costs(scenario):
    """From modelled costs to measured ones, and in the energy alone."""
    link = len(scenario.links)
    for changes in ({"delay_s": 100 * scenario.costs.delay_s}, {"energy_j": np.full(link, 1e4)}):
        policy = Replanned(
            PlanPolicy(plan_of(scenario, FIRST), "repair"),
            Triggers(change_factor=2.0),
            executor=ByHand(),
        )
        policy.decide(online(scenario, index=0))
        assert policy.orders == []
        policy.decide(online(scenario, index=1, **changes))
        assert policy.orders == [(1, "change")]
