"""A deadline is the plan's delay times a factor, and what the engine was seen to take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_cases import ScriptedTransport, two_edges

from stagewise.deploy.deadlines import (
    FIRST_TRAINING_S,
    LEAST_ROLL_CALL_S,
    LEAST_ROUND_S,
    UNKNOWN_ANSWER_S,
    Deadlines,
)
from stagewise.errors import StagewiseError

seconds = st.floats(0, 100)


def updates(*overheads):
    transport = ScriptedTransport(two_edges())
    for overhead in overheads:
        transport.overhead_s = overhead
        yield transport.report("c0", "es0", 0)


def test_before_anything_was_seen_there_is_room_for_a_slow_start():
    deadlines = Deadlines(2.0, hops=2)
    first = FIRST_TRAINING_S + UNKNOWN_ANSWER_S
    assert deadlines.round_s(10.0, 3) == pytest.approx(2 * 10 + 2 * 4 * first)
    deadlines.learn_answers([1.0, 1.0])
    assert deadlines.round_s(10.0, 3) == pytest.approx(2 * 10 + 2 * 4 * (FIRST_TRAINING_S + 1))


@given(st.floats(1, 5), seconds, st.integers(1, 5), st.floats(0, 30))
def test_the_deadline_is_delay_and_engine_times_the_factor(factor, delay_s, edge_rounds, overhead):
    for hops in (1, 2):
        deadlines = Deadlines(factor, hops)
        deadlines.learn_updates(updates(*[overhead] * 5))
        messages = edge_rounds + hops - 1
        expected = max(LEAST_ROUND_S, factor * (delay_s + messages * overhead))
        assert deadlines.round_s(delay_s, edge_rounds) == pytest.approx(expected)
        assert deadlines.engine_s(edge_rounds) == pytest.approx(messages * overhead)


def test_a_rare_slow_message_is_allowed_for_and_does_not_become_the_rule():
    deadlines = Deadlines(1.0, hops=1)
    deadlines.learn_updates(updates(*[2.0] * 54, *[9.0] * 6))
    assert deadlines.message_s == pytest.approx(2.0)
    assert deadlines.allowance_s(1) == pytest.approx(9.0)


def test_what_was_long_ago_is_forgotten():
    deadlines = Deadlines(1.0, hops=1)
    deadlines.learn_updates(updates(*[50.0] * 200))
    deadlines.learn_updates(updates(*[1.0] * 200))
    assert deadlines.allowance_s(1) == pytest.approx(1.0)


def test_updates_that_never_came_teach_nothing():
    transport = ScriptedTransport(two_edges())
    lost = transport.report("c0", "es0", 0)
    deadlines = Deadlines(1.0, hops=1)
    deadlines.learn_updates([type(lost)("c0", "es0", 0, "lost", "gone", None, None, 0, 0)])
    assert deadlines.message_s == 0.0


def test_a_poll_waits_for_both_hops():
    flat, over_edges = Deadlines(2.0, hops=1), Deadlines(2.0, hops=2)
    for deadlines in (flat, over_edges):
        deadlines.learn_answers([8.0] * 10)
    assert flat.roll_call_s() == pytest.approx(16.0)
    assert over_edges.roll_call_s() == pytest.approx(32.0)
    quick = Deadlines(2.0, hops=1)
    quick.learn_answers([0.01])
    assert quick.roll_call_s() == LEAST_ROLL_CALL_S


def test_in_process_there_is_no_engine():
    assert Deadlines(2.0, hops=0).round_s(20.0, 3) == pytest.approx(40.0)


def test_a_factor_below_one_is_refused():
    with pytest.raises(StagewiseError, match=r"deadline_factor = 0\.5: must be"):
        Deadlines(0.5, hops=1)
