"""What the policy is told after each round of Flower's: the full outcome, on the loop of all others."""

import numpy as np
import pytest
from flower_clients import (
    FAULTS,
    FirstFreeEdge,
    a_grid,
    a_model,
    a_scenario,
    mean_by_edge,
    numbers,
    start,
    trained,
)
from flwr.app import MetricRecord

from stagewise.deciding import wrapped
from stagewise.flower import StagewiseStrategy
from stagewise.loop import run_rounds
from stagewise.policies.registry import make_policy


def with_losses(message, arrays, metrics):
    """Losses that depend on the client and on the edge round."""
    client, edge_round = metrics["num-examples"] - 1, int(message.metadata.group_id[-1])
    losses = {"loss-before": 10.0 * client + edge_round, "loss-after": client - edge_round / 10}
    return arrays, metrics | losses


def norm_of_update(sent, client):
    after = trained(sent, client)
    parts = [(after[name].astype(float) - sent[name]).ravel() for name in ("weight", "bias")]
    return np.linalg.norm(np.concatenate(parts))


@pytest.mark.parametrize("edge_rounds", [1, 3])
def test_figures_of_every_client_that_trained(edge_rounds):
    scenario, model = a_scenario(), a_model()
    strategy = StagewiseStrategy(scenario, FirstFreeEdge(), edge_rounds=edge_rounds)
    start(strategy, a_grid(**{f"c{i}": with_losses for i in range(10)}), model=model)
    (outcome,) = strategy.policy.outcomes
    clients, decision = outcome.clients, strategy.rounds[0].decision
    assert outcome.decision is decision
    assert [f"c{i}" for i in clients.client] == list(decision.assignment)
    np.testing.assert_array_equal(clients.samples, scenario.clients.data[clients.client])
    np.testing.assert_array_equal(clients.loss_before, 10.0 * clients.client)
    np.testing.assert_array_equal(clients.loss_after, clients.client - (edge_rounds - 1) / 10)
    for client, edge, norm in zip(clients.client, clients.edge, clients.update_norm, strict=True):
        # Its last update is of the model that its edge had before the last edge round.
        elsewhere = [c for c in decision.assignment if decision.edge_of[int(c[1:])] != edge]
        sent = model
        if edge_rounds > 1:
            at_edge = mean_by_edge(
                model, decision, scenario.clients.data, elsewhere, edge_rounds - 1
            )
            sent = {name: at_edge[name].astype(array.dtype) for name, array in model.items()}
        assert norm == pytest.approx(norm_of_update(sent, client), rel=1e-6)
    link = scenario.links.find(clients.client, clients.edge)
    # Of the edge rounds that there were, whatever the scenario's number.
    np.testing.assert_allclose(clients.seconds, edge_rounds * scenario.costs.delay_s[link])
    np.testing.assert_allclose(clients.joules, edge_rounds * scenario.costs.energy_j[link])
    size = sum(array.nbytes for array in model.values())
    assert (clients.bytes >= 2 * edge_rounds * size).all()
    assert set(clients.fate) == {"counted"}
    serving = np.unique(clients.edge)
    np.testing.assert_array_equal(outcome.edges.data[serving], decision.evaluation.data[serving])
    assert {outcome.edges.fate[edge] for edge in serving} == {"counted"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_client_whose_update_is_not_counted(fault):
    spoil, fate, _ = FAULTS[fault]
    strategy = StagewiseStrategy(a_scenario(), FirstFreeEdge())
    start(strategy, a_grid(c4=spoil))
    (outcome,) = strategy.policy.outcomes
    place = outcome.clients.client.tolist().index(4)
    assert outcome.clients.fate[place] == fate
    assert np.isnan(outcome.clients.update_norm[place])
    assert np.isfinite(np.delete(outcome.clients.update_norm, place)).all()
    # These clients report no losses of batches.
    assert (
        np.isnan(outcome.clients.loss_before).all() and np.isnan(outcome.clients.loss_after).all()
    )
    edge = outcome.clients.edge[place]
    lost = a_scenario().clients.data[4]
    assert outcome.edges.data[edge] == outcome.decision.evaluation.data[edge] - lost


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), [1.0, 2.0]])
def test_a_loss_that_is_no_finite_number_is_not_known(loss):
    strategy = StagewiseStrategy(a_scenario(), FirstFreeEdge())
    start(strategy, a_grid(c0=lambda message, arrays, more: (arrays, more | {"loss-after": loss})))
    (outcome,) = strategy.policy.outcomes
    assert outcome.clients.fate[0] == "counted" and np.isnan(outcome.clients.loss_after[0])


def test_the_servers_evaluation_of_the_new_model_is_part_of_the_outcome():
    found = []

    def evaluate(server_round, arrays):
        found.append(float(np.abs(numbers(arrays)["bias"]).sum()))
        figures = {"accuracy": 0.1 * server_round, "loss": found[-1], "more": [1.0]}
        return None if server_round == 2 else MetricRecord(figures)

    strategy = StagewiseStrategy(a_scenario(), FirstFreeEdge())
    result = start(strategy, a_grid(), rounds=3, evaluate_fn=evaluate)
    outcomes = strategy.policy.outcomes
    assert [outcome.accuracy for outcome in outcomes] == pytest.approx([0.1, None, 0.3])
    assert [outcome.loss for outcome in outcomes] == [found[1], None, found[3]]
    assert result.evaluate_metrics_serverapp.keys() == {0, 1, 3}


def test_rounds_without_anybody_are_told_too():
    strategy = StagewiseStrategy(a_scenario(), FirstFreeEdge(), answer_s=0.01)
    grid = a_grid()
    grid.nodes = {}
    start(strategy, grid, rounds=2)
    assert [len(outcome.clients) for outcome in strategy.policy.outcomes] == [0, 0]
    assert [outcome.decision.round.index for outcome in strategy.policy.outcomes] == [0, 1]


def test_a_policy_that_learns_decides_as_it_does_without_flower():
    """Diversity looks at who served: the strategy's decisions are those of the loop by itself."""
    scenario = a_scenario()
    policies = [wrapped(make_policy("pool", scenario), diversity=5.0) for _ in range(2)]
    strategy = StagewiseStrategy(scenario, policies[0])
    start(strategy, a_grid(), rounds=5)
    decisions = [report.decision for report in strategy.rounds]
    played = run_rounds(policies[1], [decision.round for decision in decisions])
    assert [d.assignment for d in decisions] == [p.decision.assignment for p in played]
    assert len({tuple(d.assignment) for d in decisions}) > 1, "nobody took turns"


def test_the_policy_is_closed_whatever_happens():
    closed = []

    class Closing(FirstFreeEdge):
        def close(self):
            closed.append(len(self.outcomes))

    start(StagewiseStrategy(a_scenario(), Closing()), a_grid(), rounds=2)

    def stop(server_round, arrays):
        if server_round == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(StagewiseStrategy(a_scenario(), Closing()), a_grid(), rounds=2, evaluate_fn=stop)
    assert closed == [2, 0]
