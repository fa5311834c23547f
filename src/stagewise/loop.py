"""The loop that everything runs on: a round, who trains where, what came of it."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from stagewise.decisions import Decision, make_decision
from stagewise.errors import shown
from stagewise.outcomes import Outcome, expected_outcome
from stagewise.policies.policy import Policy
from stagewise.selection.selector import checked_clients
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray


class Carrier(Protocol):
    """Carries a decision out: by simulation, on real machines, or not at all."""

    def carry_out(self, decision: Decision) -> Outcome: ...

    def losses(self, clients: IntArray) -> FloatArray:
        """The mean loss of the present model on the data of each client; NaN where nobody knows."""
        ...


def unknown_losses(clients: IntArray) -> FloatArray:
    """What a carrier answers that cannot ask clients for their losses."""
    return np.full(len(clients), np.nan)


class NoTraining:
    """The carrier where there is nothing to train: everything goes as decided.

    `progress`, where given, is called with every decision.
    """

    def __init__(self, progress: Callable[[Decision], None] | None = None) -> None:
        self._progress = progress

    def carry_out(self, decision: Decision) -> Outcome:
        """What the scenario expects of the decision."""
        if self._progress is not None:
            self._progress(decision)
        return expected_outcome(decision)

    def losses(self, clients: IntArray) -> FloatArray:
        return unknown_losses(clients)


class PlayedRound(NamedTuple):
    """A round with all that came of it."""

    decision: Decision
    outcome: Outcome
    wall_s: float
    """The whole round: asking for it, the decision, what came of it."""


def run_rounds(
    policy: Policy, rounds: Iterable[Round], carrier: Carrier | None = None
) -> Iterator[PlayedRound]:
    """Play `rounds` one after the other; each is asked for when the one before is over.

    An answer that breaks the contract of a policy is an error.

    Parameters
    ----------
    policy : Policy
        Decides, and observes what came of it.
    rounds : iterable of Round
        In the order of their index.
    carrier : Carrier, optional
        Carries decisions out; by default nothing is trained.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2)
    >>> policy = stagewise.make_policy("local-search", scenario)
    >>> [played.decision.round.index for played in stagewise.run_rounds(policy, rounds)]
    [0, 1]
    """
    carrier = NoTraining() if carrier is None else carrier
    began = time.perf_counter()
    for round_ in rounds:
        announce_round(policy, round_, carrier.losses)
        asked = time.perf_counter()
        answer = policy.decide(round_)
        decision_ms = 1000 * (time.perf_counter() - asked)
        decision = make_decision(round_, answer, method=policy.title, decision_ms=decision_ms)
        outcome = carrier.carry_out(decision)
        policy.observe(outcome)
        yield PlayedRound(decision, outcome, time.perf_counter() - began)
        began = time.perf_counter()


def announce_round(
    policy: Policy, round_: Round, losses_of: Callable[[IntArray], FloatArray]
) -> None:
    """What comes before a decision; `losses_of` gives the losses of those whom the policy asks for."""
    policy.prepare(round_)
    tell_losses(policy, round_, losses_of)


def tell_losses(policy: Policy, round_: Round, losses_of: Callable[[IntArray], FloatArray]) -> None:
    """Tell the policy the losses that it wants to know before it decides, if it wants any."""
    probed = policy.probe(round_)
    if probed is not None:
        where = f"policy {shown(policy.title)}, round {round_.index}: probe"
        clients = checked_clients(round_, probed, where)
        policy.told(clients, losses_of(clients))
