"""Replies that are bad, late, missing or not asked for: named, left out, and training goes on."""

import logging

import numpy as np
import pytest
from fake_grid import reply_with
from flower_clients import (
    FAULTS,
    FIRST_NODE,
    Client,
    FirstFreeEdge,
    a_grid,
    a_model,
    a_scenario,
    assert_close,
    changed,
    mean_by_edge,
    numbers,
    record,
    start,
)
from flwr.app import Array
from flwr.serverapp.strategy import FedAvg

from stagewise.flower import StagewiseStrategy
from stagewise.flower.query import MESSAGE_TYPE


@pytest.mark.parametrize("edge_rounds", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_update_is_named_and_left_out(fault, edge_rounds, caplog):
    spoil, fate, reason = FAULTS[fault]
    scenario, model = a_scenario(), a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge(), edge_rounds=edge_rounds)
    with caplog.at_level(logging.WARNING, logger="flwr"):
        logging.getLogger("flwr").propagate = True
        result = start(strategy, a_grid(c4=spoil, c6=spoil), model=model)
    decision = strategy.rounds[0].decision
    assert {"c4", "c6"} <= decision.assignment.keys()
    expected = mean_by_edge(model, decision, scenario.clients.data, {"c4", "c6"}, edge_rounds)
    assert_close(result, expected)
    bad = [u for u in strategy.rounds[0].updates if u.fate != "counted"]
    assert {(u.client, u.edge_round) for u in bad} == {
        (client, number) for client in ("c4", "c6") for number in range(edge_rounds)
    }
    for update in bad:
        assert update.fate == fate
        assert reason in update.reason and "\n" not in update.reason
    assert "update of client c4" in caplog.text and reason in caplog.text


def test_bytes_that_are_no_array_and_other_replies_of_no_use():
    def garbled(message):
        good = Client(2)(message)
        if message.metadata.message_type == "train":
            array = good.content["arrays"]["bias"]
            good.content["arrays"]["bias"] = Array("float64", (2,), array.stype, b"\x93NUMPY no")
        return good

    def without_arrays(message):
        good = Client(3)(message)
        return good if message.metadata.message_type == MESSAGE_TYPE else reply_with(message)

    grid = a_grid()
    grid.nodes |= {FIRST_NODE + 2: garbled, FIRST_NODE + 3: without_arrays}
    scenario, model = a_scenario(), a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge())
    result = start(strategy, grid, model=model)
    report = strategy.rounds[0]
    reasons = {u.client: u.reason for u in report.updates if u.fate == "rejected"}
    assert "bias" in reasons["c2"]
    assert reasons["c3"] == "0 ArrayRecords: must be exactly 1"
    expected = mean_by_edge(model, report.decision, scenario.clients.data, {"c2", "c3"})
    assert_close(result, expected)


def test_what_comes_twice_or_unasked_is_not_counted():
    """A second reply of a node, a reply of a node that was not asked, and one to an older order."""
    scenario, model = a_scenario(), a_model()
    grid = a_grid()

    def intrude(replies):
        train = [r for r in replies if r.metadata.message_type == "train"]
        if not train:
            return []
        again, unasked, old = (Client(1)(m) for m in [grid.sent_of("train")[0]] * 3)
        again.content["arrays"] = record({k: v * 0 for k, v in a_model().items()})
        unasked.metadata.__dict__["_src_node_id"] = 77
        old.metadata.group_id = "0.0"
        old.metadata.__dict__["_src_node_id"] = FIRST_NODE + 9
        return [again, unasked, old]

    grid.extra.append(intrude)
    grid.nodes[FIRST_NODE + 9] = Client(9, spoil=lambda *_: (None, None))
    strategy = StagewiseStrategy(scenario, FirstFreeEdge())
    result = start(strategy, grid, model=model)
    report = strategy.rounds[0]
    assert "c9" in report.decision.assignment
    assert len(report.updates) == len(report.decision.assignment)
    assert [u.client for u in report.updates if u.fate == "late"] == ["c9"]
    assert_close(result, mean_by_edge(model, report.decision, scenario.clients.data, {"c9"}))


def test_where_nothing_is_of_use_the_model_stays_and_training_goes_on():
    broken = {f"c{i}": changed(bias=np.array([np.nan, 0])) for i in range(10)}
    scenario = a_scenario()
    seen = []
    strategy = StagewiseStrategy(scenario, FirstFreeEdge(), edge_rounds=2)
    result = start(
        strategy,
        a_grid(**broken),
        rounds=2,
        evaluate_fn=lambda _, arrays: seen.append(numbers(arrays)),
    )
    assert len(strategy.rounds) == 2
    assert not result.train_metrics_clientapp
    for arrays in seen:
        for name, array in a_model().items():
            np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({"loss": 1.0}, "metric num-examples = None: must be a finite number above 0"),
        ({"num-examples": 0, "loss": 1.0}, "num-examples = 0"),
        ({"num-examples": float("nan"), "loss": 1.0}, "num-examples = nan"),
        ({"num-examples": [1, 2], "loss": 1.0}, "num-examples = [1, 2]"),
        ({"num-examples": 3, "lost": 1.0}, "must have the names that other clients give them"),
    ],
)
def test_by_client_a_reply_the_wrapped_strategy_would_give_up_on(metrics, reason):
    def spoil(message, arrays, _):
        return arrays, metrics

    wrapped = FedAvg(min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1)
    strategy = StagewiseStrategy(
        a_scenario(), FirstFreeEdge(), wrapped=wrapped, aggregate_by_edge=False
    )
    result = start(strategy, a_grid(c0=spoil))
    (bad,) = [u for u in strategy.rounds[0].updates if u.fate != "counted"]
    assert bad.client == "c0" and bad.fate == "rejected" and reason in bad.reason
    assert result.arrays


@pytest.mark.parametrize("seed", range(5))
def test_every_update_asked_for_ends_in_one_fate(seed):
    """Failures at random in many rounds: nothing is lost silently, and the rest is the mean."""
    rng = np.random.default_rng(seed)
    kinds = [spoil for spoil, _, _ in FAULTS.values()]
    plan = {}

    def moody(number):
        def spoil(message, arrays, metrics):
            key = (message.metadata.group_id, number)
            plan[key] = kinds[rng.integers(len(kinds))] if rng.random() < 0.3 else None
            fault = plan[key]
            return (arrays, metrics) if fault is None else fault(message, arrays, metrics)

        return spoil

    scenario, model = a_scenario(seed, clients=12), a_model()
    models = []
    strategy = StagewiseStrategy(scenario, FirstFreeEdge())
    grid = a_grid(12, **{f"c{i}": moody(i) for i in range(12)})
    start(
        strategy,
        grid,
        rounds=6,
        model=model,
        evaluate_fn=lambda _, arrays: models.append(numbers(arrays)),
    )
    for number, report in enumerate(strategy.rounds, start=1):
        asked = list(report.decision.assignment)
        assert [update.client for update in report.updates] == asked
        failed = {c for c in asked if plan[f"{number}.0", int(c[1:])] is not None}
        assert {u.client for u in report.updates if u.fate != "counted"} == failed
        if failed == set(asked):
            expected = models[number - 1]
        else:
            data = scenario.clients.data
            expected = mean_by_edge(models[number - 1], report.decision, data, failed)
        for name in ("weight", "bias"):
            np.testing.assert_allclose(models[number][name], expected[name], rtol=1e-5, atol=1e-6)
