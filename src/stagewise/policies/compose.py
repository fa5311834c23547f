"""Who trains, then where: a selector and an associator as one policy."""

import numpy as np

from stagewise.decisions import Answer
from stagewise.errors import StagewiseError, shown
from stagewise.outcomes import Outcome, State
from stagewise.policies.policy import Policy
from stagewise.selection.associator import Associator
from stagewise.selection.selector import Selector, candidates
from stagewise.world.checks import frozen_array, instance_of
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
        selected = self._checked(round_, self.selector.select(round_))
        if len(selected) == 0:
            return Answer(np.full(len(round_.online), UNASSIGNED))
        return Answer(self.associator.associate(round_, selected))

    def _checked(self, round_: Round, selected: object) -> IntArray:
        """What the selector gave, ascending, if it can train."""
        where = f"selector {shown(self.selector.title)}, round {round_.index}: select"
        numbers: IntArray = np.sort(frozen_array(where, selected, np.int64), axis=None)
        strange = np.setdiff1d(numbers, candidates(round_))
        if len(strange):
            raise StagewiseError(
                f"{where} gave {strange[0]}: must be the number of an online client with a link that "
                f"is up"
            )
        if (numbers[1:] == numbers[:-1]).any():
            twice = numbers[1:][numbers[1:] == numbers[:-1]][0]
            raise StagewiseError(f"{where} gave {twice} twice: must give a client once")
        return numbers

    def observe(self, outcome: Outcome) -> None:
        self.selector.observe(outcome)
        self.associator.observe(outcome)

    def state(self) -> State:
        parts = {"selector": self.selector.state(), "associator": self.associator.state()}
        return {name: state for name, state in parts.items() if state}

    def restore(self, state: State) -> None:
        if "selector" in state:
            self.selector.restore(state["selector"])
        if "associator" in state:
            self.associator.restore(state["associator"])
