"""What a deployed round gave has the fields of a simulated one, as far as they are known."""

import json
import math
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from live_cases import MODEL, ScriptedTransport, config_of, play, run_in, two_edges

from stagewise import Answer, Policy
from stagewise.deploy.exchange import ClientReport
from stagewise.deploy.outcome import outcome_of
from stagewise.deploy.records import LIVE, load_live

SCENARIO = two_edges()


@pytest.fixture(scope="module")
def decision():
    _, (only,) = play(ScriptedTransport(SCENARIO))
    return only.decision


def reports(client, *rounds):
    """A report for each edge round: its fate and, if it counts, losses and norm."""
    edge = f"es{int(client[1:]) % 2}"
    return [
        ClientReport(client, edge, number, fate, "" if fate == "counted" else "as scripted")
        if fate != "counted"
        else ClientReport(client, edge, number, fate, "", 1.0, 2.0, 16, 16, *figures)
        for number, (fate, *figures) in enumerate(rounds)
    ]


def test_losses_of_the_first_and_the_last_edge_round_that_counts(decision):
    updates = [
        *reports("c0", ("counted", 2.0, 1.5, 0.3), ("counted", 1.6, 1.0, 0.2)),
        *reports("c1", ("counted", 2.0, 1.5, 0.3), ("late",)),
        *reports("c2", ("late",), ("counted", 1.6, 1.0, 0.2)),
        *reports("c3", ("rejected",), ("lost",)),
        *reports("c4", ("counted",), ("counted", None, None, 0.5)),
    ]
    found = outcome_of(decision, reversed(updates)).clients
    assert found.client.tolist() == [0, 1, 2, 3, 4, 5]
    nan = math.nan
    np.testing.assert_array_equal(found.loss_before, [2.0, 2.0, nan, nan, nan, nan])
    np.testing.assert_array_equal(found.loss_after, [1.0, 1.5, 1.0, nan, nan, nan])
    np.testing.assert_array_equal(found.update_norm, [0.2, 0.3, 0.2, nan, 0.5, nan])
    np.testing.assert_array_equal(found.seconds, [4.0, nan, nan, nan, 4.0, nan])
    assert found.bytes.tolist() == [64, 32, 32, 0, 64, 0]
    assert found.fate == ("counted", "counted", "counted", "lost", "counted", "lost")


def test_where_nobody_looked_at_a_clock_the_seconds_are_the_scenario_s(decision):
    updates = [
        ClientReport(f"c{i}", f"es{i % 2}", step, "counted", "")
        for i in range(6)
        for step in (0, 1)
    ]
    found = outcome_of(decision, updates).clients
    link = SCENARIO.links.find(np.arange(6), decision.edge_of)
    np.testing.assert_allclose(found.seconds, 2 * SCENARIO.costs.delay_s[link])
    np.testing.assert_allclose(found.joules, 2 * SCENARIO.costs.energy_j[link])


def test_seconds_and_joules_are_of_the_edge_rounds_that_were_reported(decision):
    updates = [ClientReport(f"c{i}", f"es{i % 2}", 0, "counted", "") for i in range(6)]
    found = outcome_of(decision, updates).clients
    link = SCENARIO.links.find(np.arange(6), decision.edge_of)
    np.testing.assert_allclose(found.seconds, SCENARIO.costs.delay_s[link])
    np.testing.assert_allclose(found.joules, SCENARIO.costs.energy_j[link])


def test_a_client_that_is_lost_in_the_last_edge_round_is_not_behind_the_model(decision):
    found = outcome_of(
        decision,
        [
            *reports("c0", ("counted",), ("lost",)),
            *reports("c2", ("counted",), ("counted",)),
            # Nobody's update counts in the last edge round of es1: its model is that of the first.
            *reports("c1", ("counted",), ("lost",)),
            *reports("c3", ("late",), ("late",)),
        ],
    )
    assert found.edges.data.tolist() == [30, 30]
    assert found.edges.fate == ("counted", "counted")
    assert found.clients.fate[:4] == ("counted", "counted", "counted", "late")


@pytest.mark.parametrize("seed", range(30))
def test_an_edge_s_data_is_what_it_reports_whatever_becomes_of_updates(seed):
    """Over nodes that are silent, gone or wrong at random, edge round by edge round."""
    pytest.importorskip("flwr")
    from deploy_cases import ManualClock, small_system
    from fake_channel import FakeChannel

    from stagewise.decisions import make_decision
    from stagewise.deploy.apps import client_app
    from stagewise.deploy.exchange import RoundOrder
    from stagewise.deploy.flat import Flat
    from stagewise.world.rounds import Round

    scenario, rng = small_system(clients=5, edge_rounds=3), np.random.default_rng(seed)

    def train(order, weights):
        if rng.random() < 0.6:
            raise RuntimeError("as scripted")
        return client_app.TrainedModel({"w": weights["w"] + 1}, None, None)

    clock = ManualClock()
    apps = {client: client_app.make_app(client, train) for client in scenario.clients.ids}
    channel = FakeChannel(apps, clock, lambda name, content: rng.choice([0.5, 50.0], p=[0.8, 0.2]))
    answer = Answer(np.array([0, 0, 0, 1, 1]))
    round_ = Round(scenario, np.ones(5, dtype=np.bool_))
    decision = make_decision(round_, answer, method="", decision_ms=0)
    ids = scenario.clients.ids
    groups = {scenario.edges.ids[0]: ids[:3], scenario.edges.ids[1]: ids[3:]}
    transport = Flat(scenario, channel)
    trained = transport.train_round(RoundOrder(0, MODEL, groups, 60.0))
    for reported in (trained.edges, ()):
        found = outcome_of(decision, trained.clients, reported).edges
        assert found.data.tolist() == [edge.data for edge in trained.edges]
        assert found.fate == tuple(edge.fate for edge in trained.edges)
        assert np.isinf(found.kld).tolist() == [edge.data == 0 for edge in trained.edges]


def test_nothing_can_change_an_outcome(decision):
    found = outcome_of(decision, reports("c0", ("counted",), ("counted",)))
    for part in (found.clients, found.edges, pickle.loads(pickle.dumps(found.clients))):
        arrays = [getattr(part, field.name) for field in fields(part) if field.name != "fate"]
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


class Weighted(Policy):
    """Even clients at es0, odd ones at es1, which count as `weights` say, as clients do by theirs."""

    def __init__(self, *weights, clients=None):
        self.weights, self.clients = np.array(weights), clients

    def decide(self, round_):
        edge_of = np.arange(len(round_.online)) % 2
        return Answer(np.where(round_.online, edge_of, -1), None, self.weights, self.clients)


def test_weights_of_edges_go_into_the_order():
    transport = ScriptedTransport(SCENARIO)
    play(transport, policy=Weighted(1.0, 0.25), remedy=None)
    assert transport.orders[0].edge_weights == {"es0": 1.0, "es1": 0.25}
    play(transport)
    assert transport.orders[1].edge_weights is None


def test_weights_of_clients_that_serve_go_into_the_order():
    transport = ScriptedTransport(SCENARIO)
    clients = np.arange(1.0, len(SCENARIO.clients) + 1)
    _, (only,) = play(transport, policy=Weighted(1.0, 1.0, clients=clients), remedy=None)
    serving = np.flatnonzero(only.decision.edge_of >= 0)
    expected = {f"c{i}": i + 1.0 for i in serving}
    assert transport.orders[0].client_weights == expected
    play(transport)
    assert transport.orders[1].client_weights is None


def test_where_no_edge_counts_nobody_is_asked():
    transport = ScriptedTransport(SCENARIO)
    _, (only,) = play(transport, policy=Weighted(0.0, 0.0), remedy=None)
    assert transport.orders == []
    assert only.weights is MODEL
    assert (only.live.asked, only.live.faults) == (0, [])
    assert only.outcome.clients.fate == ("lost",) * 6
    assert only.outcome.edges.fate == ("lost", "lost")


def test_figures_are_in_the_file_and_an_older_file_is_read_without_them(tmp_path):
    def spoil(order, trained):
        known = {"loss_before": 2.5, "loss_after": 1.5, "update_norm": 0.25}
        return replace(trained, clients=tuple(replace(one, **known) for one in trained.clients))

    path = tmp_path / "run"
    run_in(path, ScriptedTransport(SCENARIO, spoil=spoil), rounds=2)
    for record in load_live(path, 2):
        assert {(u.loss_before, u.loss_after, u.update_norm) for u in record.updates} == {
            (2.5, 1.5, 0.25)
        }
    lines = [json.loads(line) for line in (path / LIVE).read_text().splitlines()]
    for line in lines:
        for update in line["updates"]:
            for name in ("loss_before", "loss_after", "update_norm"):
                del update[name]
    (path / LIVE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    for record in load_live(path, 2):
        assert {update.loss_before for update in record.updates} == {None}


@pytest.mark.parametrize(
    ("weights", "remedy"),
    [(None, None), (None, "reweight"), ((1.0, 0.0), None), ((0.3, 1.0), None), ((0.0, 0.0), None)],
)
def test_in_process_and_simulated_rounds_have_the_same_outcome(weights, remedy):
    """Also the figures of training, which go through reports of edge rounds in a deployment."""
    pytest.importorskip("torch")
    from deploy_cases import TASK, small_system

    from stagewise.deciding import wrapped
    from stagewise.deploy.in_process import InProcess
    from stagewise.loop import run_rounds
    from stagewise.policies.registry import make_policy
    from stagewise.simulator.carrier import SimulatedTraining
    from stagewise.training import Trainer

    for edge_rounds in (1, 3):
        scenario = small_system(clients=5, edge_rounds=edge_rounds)
        with Trainer(TASK.task(scenario)) as trainer:
            transport = InProcess(scenario, trainer)
            transport.scenario = scenario
            policy = make_policy("fedcs", scenario) if weights is None else Weighted(*weights)
            policy = wrapped(policy, remedy=remedy)
            _, deployed = play(
                transport,
                rounds=3,
                policy=policy,
                remedy=None,
                design="in-process",
                weights=trainer.initial_weights(),
                evaluate=trainer.evaluate,
            )
            simulated = SimulatedTraining(config_of(scenario, rounds=3), scenario, trainer)
            rounds = [one.decision.round for one in deployed]
            for one, other in zip(deployed, run_rounds(policy, rounds, simulated), strict=True):
                same_outcome(one.outcome, other.outcome, trains=weights != (0.0, 0.0))
                for name, array in one.weights.items():
                    if other.decision.round.index == 2:
                        np.testing.assert_allclose(array, simulated.weights[name], atol=1e-6)


def same_outcome(one, other, trains):
    assert one.accuracy == other.accuracy
    assert one.loss == pytest.approx(other.loss, abs=1e-6)
    assert set(other.clients.fate) == {"counted" if trains else "lost"}
    assert (other.clients.bytes > 0).all() == trains
    assert one.clients.fate == other.clients.fate
    assert one.edges.fate == other.edges.fate
    assert len(one.clients) > 0
    for name in ("loss_before", "loss_after", "update_norm"):
        assert (np.isfinite(getattr(one.clients, name)) == trains).all()
    for name in (
        *("client", "edge", "samples", "loss_before", "loss_after", "update_norm"),
        *("seconds", "joules", "bytes"),
    ):
        found, expected = getattr(one.clients, name), getattr(other.clients, name)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(one.edges.data, other.edges.data)
    np.testing.assert_allclose(one.edges.kld, other.edges.kld)
