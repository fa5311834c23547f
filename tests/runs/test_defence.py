"""What a run remembers of clients whose updates were rejected."""

import numpy as np
import pytest

from stagewise.robust.labels import BiasRise, OutputBias
from stagewise.robust.safeguards import UpdateFigures
from stagewise.runs.defence import Defence, SeenUpdate
from stagewise.world.generate import numeric

SYSTEM = numeric(4, 2, 0)
LOW, HIGH = BiasRise(0.1, 0.0), BiasRise(0.7, 0.0)


def defence_after(*rounds):
    """The defence after rounds of one edge round, of which norm and biases of each client are given."""
    defence = Defence(SYSTEM, "mean", 0, OutputBias("bias", 0.1, 0.0))
    for index, given in enumerate(rounds):
        seen = [SeenUpdate(0, 0, client, UpdateFigures(*own)) for client, own in enumerate(given)]
        events = defence.observe(index, seen, {})
    return defence, {event.client for event in events if event.kind == "rejected"}


def of_client_0(norm, biases):
    return [(norm, biases), (1.0, LOW), (1.0, LOW), (1.0, LOW)]


USUAL = [of_client_0(1.0, LOW)] * 2
"""Two rounds, from which limits are learned."""


@pytest.mark.parametrize(
    ("rounds", "rejected", "offends"),
    [
        # Before anything is learned, all may raise the biases much: the norm is the reason.
        ([of_client_0(120.0, HIGH)], True, False),
        ([of_client_0(120.0, LOW)], True, False),
        ([of_client_0(1.0, BiasRise(1.2, 0.0))], True, True),
        ([of_client_0(1.0, BiasRise(0.1, 0.5))], True, True),
        ([*USUAL, of_client_0(4.0, HIGH)], True, True),
        ([*USUAL, of_client_0(120.0, HIGH)], True, True),
        ([*USUAL, of_client_0(120.0, LOW)], True, False),
        ([*USUAL, of_client_0(2.0, HIGH)], False, False),
        ([*USUAL, of_client_0(4.0, LOW)], False, False),
        # A client whose labels the model does not know yet has large updates again and again.
        ([*USUAL, of_client_0(30.0, LOW), of_client_0(30.0, LOW)], False, False),
        # Once an offender, always one: what others may send is refused, and that is no news.
        ([*USUAL, of_client_0(1.0, BiasRise(0.1, 0.5)), of_client_0(4.0, LOW)], True, True),
    ],
)
def test_offenders_are_those_rejected_by_their_biases(rounds, rejected, offends):
    defence, found = defence_after(*rounds)
    assert found == ({SYSTEM.clients.ids[0]} if rejected else set())
    assert defence.safeguards().offenders == ({0} if offends else set())
    resumed = Defence(SYSTEM, "mean", 0, OutputBias("bias", 0.1, 0.0))
    resumed.restore(defence.state())
    assert resumed.safeguards().offenders == defence.safeguards().offenders
    np.testing.assert_equal(resumed.state(), defence.state())
