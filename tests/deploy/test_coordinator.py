"""The cloud's loop with a transport that fails in every way: nothing is lost silently."""

from dataclasses import replace

import numpy as np
import pytest
from live_cases import MODEL, MODEL_BYTES, ScriptedTransport, planned, play, two_edges

from stagewise.checker import check
from stagewise.deploy.accounts import UNREPORTED, reconcile
from stagewise.deploy.exchange import ClientReport, EdgeReport, RoundOrder, count_fates
from stagewise.deploy.status import adds_up, not_counted
from stagewise.errors import StagewiseError
from stagewise.policies.registry import make_policy
from stagewise.problem.evaluation import evaluate
from stagewise.world.rounds import Round


def true_of(scenario, played):
    decisions = [one.decision for one in played]
    return check(scenario, decisions, [decision.round for decision in decisions])


def test_a_round_without_faults():
    scenario = two_edges()
    transport = ScriptedTransport(scenario)
    _, (only,) = play(transport)
    (order,) = transport.orders
    assert order.groups == {"es0": ("c0", "c2", "c4"), "es1": ("c1", "c3", "c5")}
    assert only.weights["w"].tolist() == [1, 1, 1, 1]
    assert only.outcome.loss == 1.0  # the new model was evaluated
    live = only.live
    assert live.asked == 12
    assert live.fates == {"counted": 12, "late": 0, "rejected": 0, "lost": 0}
    assert live.faults == []
    assert (live.delay_s, live.predicted_delay_s) == (7.0, only.decision.delay_s)
    assert live.energy_j == pytest.approx(live.predicted_energy_j)
    assert live.cloud_bytes_up == live.predicted_cloud_bytes == 2 * MODEL_BYTES
    assert live.client_bytes_up == live.predicted_client_bytes == 12 * MODEL_BYTES
    assert true_of(scenario, [only]) == []


def test_predictions_follow_what_was_measured():
    transport = ScriptedTransport(two_edges(), train_s=3.0, overhead_s=1.0)
    _, played = play(transport, rounds=6)
    first, last = played[0].live, played[-1].live
    assert first.expected_delay_s == pytest.approx(first.predicted_delay_s)
    # Two edge rounds of 3 s, the slower uplink, and three messages of 1 s.
    assert last.expected_delay_s == pytest.approx(2 * 3.0 + 0.3 + 3 * 1.0, rel=0.15)
    assert last.deadline_s == pytest.approx(2 * last.expected_delay_s, rel=0.01)
    assert last.deadline_s < first.deadline_s


def test_decisions_use_measured_delays_only_when_asked_to():
    for asked in (False, True):
        transport = ScriptedTransport(two_edges(), train_s=40.0)
        _, played = play(transport, rounds=4, measured_costs=asked)
        delays = [one.decision.delay_s for one in played]
        assert (delays[-1] > 2 * delays[0]) is asked
        # What was measured stands beside what the scenario predicts, whatever the decision used.
        scenario_s = [
            evaluate(
                Round(transport.scenario, one.decision.round.online), one.decision.edge_of
            ).delay_s
            for one in played
        ]
        assert [one.live.predicted_delay_s for one in played] == pytest.approx(scenario_s)
        assert true_of(transport.scenario, played) == []


@pytest.mark.parametrize("fate", ["late", "rejected", "lost"])
def test_an_update_that_does_not_count_is_named(fate):
    def spoil(order, trained):
        first, *rest = trained.clients
        return replace(trained, clients=(replace(first, fate=fate, reason="as scripted"), *rest))

    coordinator, played = play(ScriptedTransport(two_edges(), spoil=spoil), rounds=3)
    for one in played:
        assert one.live.fates[fate] == 1
        assert one.live.fates["counted"] == 11
        assert not_counted(one.live) == [
            f"round {one.live.round}, edge round 0: c0 at es0: {fate}: as scripted"
        ]
    assert adds_up([one.live for one in played])
    statuses = []
    coordinator.report = statuses.append
    coordinator.end("finished")
    assert statuses[0].fates[fate] == 3


def test_an_edge_that_vanishes_in_a_round_and_is_gone_in_the_next():
    def spoil(order, trained):
        if order.round != 1:
            return trained
        return replace(
            trained,
            clients=tuple(
                replace(one, fate="lost", reason="its edge is gone", round_trip_s=None)
                if one.edge == "es0"
                else one
                for one in trained.clients
            ),
            edges=(EdgeReport("es0", "lost", "gone", 0), trained.edges[1]),
        )

    transport = ScriptedTransport(two_edges(data_min=120), {2: ["es0"], 3: ["es0"]}, spoil)
    _, played = play(transport, rounds=4)
    assert [one.live.fates["lost"] for one in played] == [0, 6, 0, 0]
    assert set(transport.orders[2].groups) == {"es1"}
    # es1 has three of its own and needs a fourth: one of es0's serves it.
    assert len(transport.orders[2].groups["es1"]) == 4
    # An edge that is gone is not part of the round, so that it needs no data.
    assert [one.decision.feasible for one in played] == [False, False, True, True]
    assert played[2].decision.round.edges_up.tolist() == [False, True]
    # What the policy learns from: the edge's model was lost, and with it what its clients did.
    assert played[1].outcome.edges.fate == ("lost", "counted")
    assert played[2].outcome.edges.fate == (None, "counted")
    assert played[1].outcome.edges.data.tolist() == [0, 90]
    assert played[2].live.edges == ["es1"]
    assert true_of(transport.scenario, played) == []
    assert adds_up([one.live for one in played])


def test_a_client_that_is_gone_is_not_asked():
    transport = ScriptedTransport(two_edges(), {0: ["c0", "c1"]})
    _, (only,) = play(transport)
    assert "c0" not in only.live.reached
    assert all({"c0", "c1"}.isdisjoint(group) for group in transport.orders[0].groups.values())
    assert true_of(transport.scenario, [only]) == []


def test_every_decision_is_true_and_uses_links_that_are_there_whoever_comes_and_goes():
    scenario = two_edges(8)
    names = [*scenario.clients.ids, *scenario.edges.ids]
    rng = np.random.default_rng(5)
    gone = {poll: [name for name in names if rng.random() < 0.3] for poll in range(60)}
    fates = ("counted", "late", "rejected", "lost")

    def spoil(order, trained):
        return replace(
            trained,
            clients=tuple(
                replace(one, fate=fates[int(rng.integers(4))]) for one in trained.clients
            ),
        )

    for policy in (planned(scenario), make_policy("fedcs", scenario)):
        transport = ScriptedTransport(scenario, gone, spoil)
        remedy = "lend" if policy.plan is not None else "drop"
        _, played = play(transport, rounds=20, policy=policy, remedy=remedy)
        assert true_of(scenario, played) == []
        assert adds_up([one.live for one in played])
        for one in played:
            assert sum(one.live.fates.values()) == one.live.asked
            for update in one.live.updates:
                assert update.edge in one.live.reached[update.client]
                assert update.edge in one.live.edges


def test_it_waits_until_somebody_is_there(monkeypatch):
    scenario = two_edges()
    monkeypatch.setattr("stagewise.deploy.coordinator.time.sleep", lambda seconds: None)
    transport = ScriptedTransport(scenario, {0: scenario.clients.ids, 1: scenario.edges.ids})
    _, (only,) = play(transport)
    assert transport.polls == 3
    assert only.live.asked == 12


@pytest.mark.fault("Nobody is in touch", "the run ends with one line, and can go on later")
def test_where_nobody_comes_the_run_ends_and_says_why(monkeypatch):
    scenario = two_edges()
    monkeypatch.setattr("stagewise.deploy.coordinator.time.sleep", lambda seconds: None)
    transport = ScriptedTransport(scenario, dict.fromkeys(range(10**6), scenario.clients.ids))
    with pytest.raises(StagewiseError, match="no client answered for"):
        play(transport, patience_s=0.05)


def test_a_round_in_which_nobody_may_serve_leaves_the_model():
    """With drop and too few clients for any edge nobody trains, and nothing is sent."""
    scenario = two_edges(4, data_min=120)
    transport = ScriptedTransport(scenario, {0: ["c0", "c1"]})
    _, (only,) = play(transport, remedy="drop")
    assert transport.orders == []
    assert only.weights is MODEL
    assert only.live.asked == 0
    assert only.live.predicted_cloud_bytes == 0
    assert true_of(scenario, [only]) == []


ORDER = RoundOrder(4, MODEL, {"es0": ("c0", "c2"), "es1": ("c1",)}, 10.0)


def trained_as(order, scenario):
    return ScriptedTransport(scenario).train_round(order)


def test_an_account_without_faults():
    scenario = two_edges()
    account, faults = reconcile(ORDER, trained_as(ORDER, scenario), 2)
    assert faults == ()
    assert count_fates(one.fate for one in account.clients)["counted"] == 6
    assert len({(one.edge, one.edge_round, one.client) for one in account.clients}) == 6


def test_an_update_without_a_report_is_lost_and_a_fault():
    trained = trained_as(ORDER, two_edges())
    account, faults = reconcile(ORDER, replace(trained, clients=trained.clients[1:]), 2)
    assert faults == ("update c0 at es0 in edge round 0: no report",)
    (lost,) = [one for one in account.clients if one.fate != "counted"]
    assert (lost.client, lost.fate, lost.reason) == ("c0", "lost", UNREPORTED)


def test_an_update_that_is_reported_twice_counts_once():
    trained = trained_as(ORDER, two_edges())
    again = replace(trained.clients[0], fate="late", reason="again")
    account, faults = reconcile(ORDER, replace(trained, clients=(*trained.clients, again)), 2)
    assert faults == ("update c0 at es0 in edge round 0: 2 reports",)
    assert count_fates(one.fate for one in account.clients) == {
        "counted": 6,
        "late": 0,
        "rejected": 0,
        "lost": 0,
    }


def test_what_nobody_asked_for_does_not_count():
    trained = trained_as(ORDER, two_edges())
    stranger = ClientReport("c5", "es1", 0, "counted", "", 1.0, 1.0, 9, 9)
    beyond = ClientReport("c1", "es1", 2, "counted", "", 1.0, 1.0, 9, 9)
    account, faults = reconcile(
        ORDER, replace(trained, clients=(*trained.clients, stranger, beyond)), 2
    )
    assert faults == (
        "update c5 at es1 in edge round 0: not asked for",
        "update c1 at es1 in edge round 2: not asked for",
    )
    assert len(account.clients) == 6


def test_an_update_cannot_count_where_its_edge_does_not():
    trained = trained_as(ORDER, two_edges())
    gone = replace(trained, edges=(trained.edges[0], EdgeReport("es1", "lost", "gone", 0)))
    _, faults = reconcile(ORDER, gone, 2)
    assert faults == tuple(
        f"update c1 at es1 in edge round {step}: counted, but the edge's model is lost"
        for step in range(2)
    )
    silent, missing = reconcile(ORDER, replace(trained, edges=trained.edges[:1]), 2)
    assert missing == ("edge es1: no report",)
    assert [(edge.edge, edge.fate) for edge in silent.edges] == [
        ("es0", "counted"),
        ("es1", "lost"),
    ]


def test_faults_of_a_transport_are_recorded_and_the_sum_is_refused():
    def spoil(order, trained):
        return replace(trained, clients=(*trained.clients, trained.clients[0]))

    coordinator, (only,) = play(ScriptedTransport(two_edges(), spoil=spoil))
    assert only.live.faults == ["update c0 at es0 in edge round 0: 2 reports"]
    assert not adds_up([only.live])
    statuses = []
    coordinator.report = statuses.append
    coordinator.end("stopped")
    assert statuses[0].faults == 1


def test_the_status_says_where_the_loop_is():
    statuses = []
    transport = ScriptedTransport(two_edges(), {1: ["es1"]})
    play(transport, rounds=2, report=statuses.append)
    assert [(one.phase, one.round) for one in statuses] == [
        ("polling", 0),
        ("deciding", 0),
        ("training", 0),
        ("polling", 1),
        ("deciding", 1),
        ("training", 1),
    ]
    assert statuses[2].groups == {"es0": ["c0", "c2", "c4"], "es1": ["c1", "c3", "c5"]}
    assert statuses[3].groups == statuses[2].groups  # until there is news, what was known last
    assert statuses[5].edges == ["es0"]
    assert statuses[3].fates["counted"] == 12
