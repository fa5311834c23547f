"""The strategy's models compared with an independent mean (Eqs. 2 and 3)."""

import numpy as np
import pytest
from fake_grid import FakeGrid, reply_with
from flower_clients import (
    FIRST_NODE,
    Client,
    FirstFreeEdge,
    a_grid,
    a_model,
    a_scenario,
    assert_close,
    mean_by_edge,
    numbers,
    record,
    start,
    trained,
)
from flwr.serverapp.strategy import FedAdam, FedAvg, FedProx

from helpers import random_scenario
from stagewise.flower import StagewiseStrategy
from stagewise.flower.query import MESSAGE_TYPE
from stagewise.policies.remedied import edge_weights
from stagewise.world.scenario import Limits


@pytest.mark.parametrize("edge_rounds", [1, 3])
def test_the_model_is_the_mean_within_edges_and_then_over_edges(edge_rounds):
    scenario, model = a_scenario(), a_model()
    grid = a_grid()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge(), edge_rounds=edge_rounds)
    result = start(strategy, grid, model=model)
    decision = strategy.rounds[0].decision
    assert len(set(decision.assignment.values())) > 1
    expected = mean_by_edge(model, decision, scenario.clients.data, edge_rounds=edge_rounds)
    assert_close(result, expected)
    updates = strategy.rounds[0].updates
    assert len(updates) == edge_rounds * len(decision.assignment)
    assert {u.fate for u in updates} == {"counted"}
    # The losses that clients report are their numbers.
    data = scenario.clients.data[[int(c[1:]) for c in decision.assignment]]
    loss = np.average([int(c[1:]) for c in decision.assignment], weights=data)
    assert result.train_metrics_clientapp[1]["loss"] == pytest.approx(loss)


def test_several_rounds_start_from_the_last_model():
    scenario, model = a_scenario(), a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge())
    result = start(strategy, a_grid(), rounds=3, model=model)
    for report in strategy.rounds:
        mean = mean_by_edge(model, report.decision, scenario.clients.data)
        model = {
            name: (np.rint(mean[name]) if name == "batches" else mean[name]).astype(old.dtype)
            for name, old in model.items()
        }
    assert_close(result, model)


def test_by_client_the_wrapped_strategy_has_every_update_as_it_came():
    scenario, model = a_scenario(), a_model()
    wrapped = FedAvg(min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1)
    strategy = StagewiseStrategy(
        scenario, FirstFreeEdge(), wrapped=wrapped, aggregate_by_edge=False
    )
    grid = a_grid()
    result = start(strategy, grid, model=model)
    members = [int(client[1:]) for client in strategy.rounds[0].decision.assignment]
    weights = np.array([i + 1 for i in members])
    expected = {
        name: sum(w * trained(model, i)[name] for w, i in zip(weights, members, strict=True))
        / weights.sum()
        for name in model
    }
    assert_close(result, expected)
    scores = np.average(np.arange(10), weights=np.arange(1, 11))
    assert result.evaluate_metrics_clientapp[1]["score"] == pytest.approx(scores)
    assert len(grid.sent_of("evaluate")) == 10


def test_strategies_of_flower_within():
    """FedAdam's step from the mean over edges, and what FedProx tells clients."""
    scenario, model = a_scenario(), {"bias": a_model()["bias"]}
    adam = FedAdam(
        min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1, fraction_evaluate=0.0
    )

    def only_bias(number):
        client = Client(number)

        def node(message):
            if message.metadata.message_type == MESSAGE_TYPE:
                return client(message)
            bias = message.content["arrays"]["bias"].numpy()
            return reply_with(message, arrays=record({"bias": bias - 0.1 * (number + 1)}))

        return node

    strategy = StagewiseStrategy(scenario, FirstFreeEdge(), wrapped=adam)
    grid = FakeGrid({FIRST_NODE + i: only_bias(i) for i in range(10)})
    result = start(strategy, grid, model=model)
    members = [int(client[1:]) for client in strategy.rounds[0].decision.assignment]
    moved = -0.1 * (np.array(members) + 1)
    delta = np.average(moved, weights=scenario.clients.data[members])
    first, second = (1 - adam.beta_1) * delta, (1 - adam.beta_2) * delta**2
    eta = adam.eta * np.sqrt(1 - adam.beta_2**2) / (1 - adam.beta_1**2)
    step = eta * first / (np.sqrt(second) + adam.tau)
    np.testing.assert_allclose(numbers(result.arrays)["bias"], model["bias"] + step)

    prox = FedProx(min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1, proximal_mu=0.3)
    grid = a_grid()
    start(StagewiseStrategy(scenario, FirstFreeEdge(), wrapped=prox, edge_rounds=2), grid)
    sent = [message.content["config"]["proximal-mu"] for message in grid.sent_of("train")]
    assert len(sent) > 10 and set(sent) == {0.3}


def test_reweight_counts_failing_edges_for_less():
    scenario = random_scenario(
        3, 10, 3, limits=Limits(kld_max=0.3, data_min=250), isolated=0, capacity=(4, 6)
    )
    model = a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge(), remedy="reweight")
    result = start(strategy, a_grid(), model=model)
    decision = strategy.rounds[0].decision
    weights = edge_weights(scenario.limits, decision.evaluation)
    assert ((weights > 0) & (weights < 1)).any() and len(set(weights[weights > 0])) > 1
    share = dict(zip(scenario.edges.ids, weights, strict=True))
    assert_close(result, mean_by_edge(model, decision, scenario.clients.data, share=share))


def test_clients_count_by_their_weights():
    scenario, model = a_scenario(), a_model()
    weights = np.linspace(0.2, 3.0, len(scenario.clients))
    policy = FirstFreeEdge(client_weights=weights)
    strategy = StagewiseStrategy(scenario, policy, edge_rounds=2)
    result = start(strategy, a_grid(), model=model)
    given = {"edge_rounds": 2, "client_weights": weights}
    decision = strategy.rounds[0].decision
    assert_close(result, mean_by_edge(model, decision, scenario.clients.data, **given))


def test_where_no_edge_counts_nobody_is_asked_and_the_model_stays():
    policy, grid = FirstFreeEdge(edge_weights=np.zeros(3)), a_grid()
    result = start(StagewiseStrategy(a_scenario(), policy), grid)
    assert grid.sent_of("train") == []
    assert not result.arrays
    (outcome,) = policy.outcomes
    assert set(outcome.clients.fate) == {"lost"}
    assert "counted" not in outcome.edges.fate


@pytest.mark.parametrize("seed", range(6))
def test_an_edge_round_without_an_update_leaves_the_edges_model(seed):
    """Clients are silent in edge rounds at random: what was counted is in the model."""
    rng, number = np.random.default_rng(seed), 3
    silent = rng.random((8, number)) < 0.7

    def spoil(message, arrays, metrics):
        client, edge_round = metrics["num-examples"] - 1, int(message.metadata.group_id[-1])
        return (None, None) if silent[client, edge_round] else (arrays, metrics)

    scenario, model = a_scenario(seed, clients=8), a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge(), edge_rounds=number)
    grid = a_grid(8, **{f"c{i}": spoil for i in range(8)})
    result = start(strategy, grid, model=model)
    assignment, data = strategy.rounds[0].decision.assignment, scenario.clients.data
    assert len(grid.sent_of("train")) == number * len(assignment)
    edges, skipped = [], 0
    for edge in dict.fromkeys(assignment.values()):
        at_edge, size = model, 0
        for edge_round in range(number):
            who = [int(c[1:]) for c, own in assignment.items() if own == edge]
            who = [i for i in who if not silent[i, edge_round]]
            skipped += not who and size > 0
            if who:
                size, updates = int(data[who].sum()), [trained(at_edge, i) for i in who]
                at_edge = {
                    name: np.max([u[name] for u in updates])
                    if name == "batches"
                    else np.average([u[name] for u in updates], axis=0, weights=data[who])
                    for name in model
                }
        if size:
            edges.append((at_edge, size))
    sizes = [size for _, size in edges]
    expected = {
        name: np.average([at_edge[name] for at_edge, _ in edges], axis=0, weights=sizes)
        for name in model
    }
    assert skipped, "no edge lost an edge round"
    assert_close(result, expected)
    counted = {(u.client, u.edge_round) for u in strategy.rounds[0].of_fate("counted")}
    came = {(c, k) for c in assignment for k in range(number) if not silent[int(c[1:]), k]}
    assert counted == came
    assert "loss" in result.train_metrics_clientapp[1]
