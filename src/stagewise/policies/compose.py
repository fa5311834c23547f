"""Who trains, then where: a selector and an associator as one policy."""

import numpy as np

from stagewise.decisions import Answer
from stagewise.errors import shown
from stagewise.outcomes import Outcome, State
from stagewise.policies.policy import Policy
from stagewise.selection.associator import Associator
from stagewise.selection.selector import Selector, checked_clients
from stagewise.world.checks import instance_of
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray


class Compose(Policy):
    """Lets a selector say who trains, and an associator where.

    Whoever finds no edge with room does not train.

    Parameters
    ----------
    selector : Selector
        Who trains.
    associator : Associator
        Where.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> selector = stagewise.make_selector("random-k,k=8", scenario)
    >>> policy = stagewise.Compose(selector, stagewise.make_associator("nearest", scenario))
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2)
    >>> [len(decision.assignment) for decision in stagewise.solve(scenario, rounds, policy)]
    [8, 8]
    """

    uses_feedback = False  # by itself

    def __init__(self, selector: Selector, associator: Associator) -> None:
        instance_of("selector", selector, Selector)
        instance_of("associator", associator, Associator)
        self.selector, self.associator = selector, associator
        self.uses_feedback = selector.uses_feedback or associator.uses_feedback

    @property
    def title(self) -> str:
        """The name, or those of the two."""
        return self.name or f"{self.selector.title}+{self.associator.title}"

    def probe(self, round_: Round) -> IntArray | None:
        return self.selector.probe(round_)

    def told(self, clients: IntArray, losses: FloatArray) -> None:
        self.selector.told(clients, losses)

    def decide(self, round_: Round) -> Answer:
        where = f"selector {shown(self.selector.title)}, round {round_.index}: select"
        selected = checked_clients(round_, self.selector.select(round_), where)
        if len(selected) == 0:
            return Answer(np.full(len(round_.online), UNASSIGNED))
        return Answer(self.associator.associate(round_, selected))

    def observe(self, outcome: Outcome) -> None:
        self.selector.observe(outcome)
        self.associator.observe(outcome)

    def state(self) -> State:
        parts = {"selector": self.selector.state(), "associator": self.associator.state()}
        return {name: state for name, state in parts.items() if state}

    def restore(self, state: State) -> None:
        self.selector.restore(state.get("selector", {}))
        self.associator.restore(state.get("associator", {}))
