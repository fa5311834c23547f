"""Links' costs from what was measured, and the modelled energy of what took place."""

from dataclasses import replace

import numpy as np
import pytest
from live_cases import ScriptedTransport, two_edges

from stagewise.decisions import Answer, make_decision
from stagewise.deploy.costs import LATE, WORTH, MeasuredCosts, Ratios, modelled_energy_j
from stagewise.world.rounds import Round

SCENARIO = two_edges()


EVERYONE = np.ones(6, dtype=bool)


def ratios_of(costs):
    """Measured over predicted, for each link."""
    return costs.link_delay_s / SCENARIO.costs.delay_s


def report(client=0, edge=0, train_s=1.0, trip_s=3.0, fate="counted", edge_round=0):
    made = ScriptedTransport(SCENARIO).report(f"c{client}", f"es{edge}", edge_round)
    return replace(made, train_s=train_s, round_trip_s=trip_s, fate=fate)


def test_what_was_never_seen_is_as_its_group_is_and_that_as_all_are():
    ratios = Ratios(np.array([0, 0, 1, 2]))
    assert ratios.values().tolist() == [1, 1, 1, 1]
    for _ in range(1000):
        ratios.observe(0, 3.0, 1.0)
        ratios.observe(2, 12.0, 1.0)
    found = ratios.values()
    np.testing.assert_allclose(found[[0, 2]], [3, 12], rtol=0.25)
    assert found[1] == pytest.approx(found[0], rel=0.1)  # of the same group
    assert 3 < found[3] < 12  # between what the others are


def test_one_observation_is_worth_its_share():
    ratios = Ratios(np.array([0]))
    ratios.observe(0, np.e, 1.0)
    share = 1 / (1 + WORTH)
    overall = share
    group = share + (1 - share) * overall
    assert np.log(ratios.values()[0]) == pytest.approx(share + (1 - share) * group)


def test_an_outlier_does_not_move_the_estimate():
    calm, wild = Ratios(np.array([0])), Ratios(np.array([0]))
    for number in range(15):
        calm.observe(0, 2.0, 1.0)
        wild.observe(0, 1000.0 if number == 7 else 2.0, 1.0)
    assert wild.values()[0] == pytest.approx(calm.values()[0])


def test_the_truth_is_found_behind_noise():
    """Clients of ratios from 0.2 to 10, each seen twenty times with noise of a third."""
    rng = np.random.default_rng(0)
    truth = np.geomspace(0.2, 10, 6)
    costs = MeasuredCosts(SCENARIO)
    for _ in range(20):
        for client in range(6):
            predicted = SCENARIO.costs.delay_s[2 * client]
            taken = truth[client] * predicted * rng.lognormal(0, 0.3)
            costs.learn([report(client, 0, train_s=0.0, trip_s=5.0 + taken)], 100.0, engine_s=5.0)
    found = ratios_of(costs)
    np.testing.assert_allclose(found[::2], truth, rtol=0.35)
    # The link to the other edge was never used: the client's own ratio is taken.
    np.testing.assert_allclose(found[1::2], found[::2], rtol=0.2)


def test_the_delay_is_eq_4_with_the_measured_links():
    costs = MeasuredCosts(SCENARIO)
    edge_of = np.array([0, 1, 0, 1, -1, -1])
    plain = make_decision(Round(SCENARIO, EVERYONE), Answer(edge_of), method="", decision_ms=0)
    assert costs.delay_s(edge_of) == pytest.approx(plain.delay_s)
    for _ in range(200):
        for client in range(4):
            predicted = float(SCENARIO.costs.delay_s[2 * client])
            costs.learn([report(client, client % 2, 0.0, 4 * predicted)], 100.0, 0.0)
    link = SCENARIO.links.find(np.arange(4), edge_of[:4])
    slow = costs.link_delay_s[link]
    by_edge = [2 * slow[[0, 2]].max() + 0.2, 2 * slow[[1, 3]].max() + 0.3]
    assert costs.delay_s(edge_of) == pytest.approx(max(by_edge))
    assert costs.delay_s(edge_of) > 3 * plain.delay_s
    measured = Round(SCENARIO, EVERYONE, delay_s=costs.link_delay_s)
    decision = make_decision(measured, Answer(edge_of), method="", decision_ms=0)
    assert decision.delay_s == pytest.approx(costs.delay_s(edge_of))
    assert decision.energy_j == plain.energy_j


def test_the_engine_s_time_for_a_message_is_no_part_of_a_link_s():
    """Whatever a client says, the link took no less than its training and no more than all of it."""
    for train_s, trip_s, taken in ((3.0, 503.0, 3.0), (0.0, 502.0, 2.0), (9.0, 505.0, 9.0)):
        costs = MeasuredCosts(SCENARIO)
        for _ in range(300):
            costs.learn([report(client, 0, train_s, trip_s) for client in range(6)], 9e9, 500.0)
        np.testing.assert_allclose(costs.link_delay_s[::2], taken, rtol=0.15)


@pytest.mark.parametrize("train_s", [1e-300, 1e6, 1e100])
def test_no_measurement_makes_costs_that_a_round_cannot_have(train_s):
    costs = MeasuredCosts(SCENARIO)
    assert costs.link_delay_s is None
    for _ in range(30):
        costs.learn([report(client, 0, train_s, train_s) for client in range(6)], 9e9, 0.0)
    round_ = Round(SCENARIO, EVERYONE, delay_s=costs.link_delay_s)
    assert np.isfinite(round_.costs.delay_s).all()


def test_who_is_late_is_taken_to_be_slow_and_who_is_lost_is_not():
    late, lost = MeasuredCosts(SCENARIO), MeasuredCosts(SCENARIO)
    for _ in range(50):
        late.learn([report(0, 0, None, None, "late")], deadline_s=40.0, engine_s=5.0)
        lost.learn([report(0, 0, None, None, "lost")], deadline_s=40.0, engine_s=5.0)
    assert lost.link_delay_s is None  # nothing is known beside what the scenario says
    expected = (LATE * 40.0 / SCENARIO.edge_rounds - 5.0) / SCENARIO.costs.delay_s[0]
    assert ratios_of(late)[0] == pytest.approx(expected, rel=0.5)
    assert ratios_of(late)[0] > 1


def test_energy_is_the_decision_s_where_everything_took_place():
    transport = ScriptedTransport(SCENARIO)
    edge_of = np.array([0, 1, 0, 1, 1, -1])
    round_ = Round(SCENARIO, EVERYONE, cpu_hz=SCENARIO.clients.cpu_hz / 2)
    decision = make_decision(round_, Answer(edge_of), method="", decision_ms=0)
    updates = [
        transport.report(f"c{client}", f"es{edge_of[client]}", edge_round)
        for client in range(5)
        for edge_round in range(SCENARIO.edge_rounds)
    ]
    spent = modelled_energy_j(round_, updates, ["es0", "es1"])
    assert spent == pytest.approx(decision.energy_j)
    # What was lost is not spent; what was late or refused is.
    fates = ["lost", "late", "rejected"] + ["counted"] * 7
    partly = [replace(update, fate=fate) for update, fate in zip(updates, fates, strict=True)]
    one = round_.costs.energy_j[SCENARIO.links.find(np.array([0]), np.array([0]))[0]]
    assert modelled_energy_j(round_, partly, ["es0", "es1"]) == pytest.approx(spent - one)
    assert modelled_energy_j(round_, updates, ["es0"]) == pytest.approx(spent - 0.1)
    assert modelled_energy_j(round_, [], []) == 0
