"""Diversity: clients cost more the more often and the more lately they have served."""

import numpy as np

from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.outcomes import Outcome, State
from stagewise.policies.policy import Policy, Wrapper
from stagewise.world.checks import finite
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round

_FADING = 0.5  # what a round more leaves of having served lately


class Diverse(Wrapper):
    """A policy for which equally good clients take turns.

    Where clients are nearly always online, the cheapest choice is the same in every round, and training
    sees the same data again and again.

    Parameters
    ----------
    policy : Policy
        One that takes surcharges.
    weight : float
        At 1, a client that serves all the time costs one typical client more.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> policy = stagewise.Diverse(stagewise.make_policy("pool", scenario), weight=0.5)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2)
    >>> [decision.method for decision in stagewise.solve(scenario, rounds, policy)]
    ['pool-flexible', 'pool-flexible']
    """

    uses_feedback = False  # who served is decided, not learned

    def __init__(self, policy: Policy, weight: float) -> None:
        super().__init__(policy)
        self.weight = finite("diversity", weight, 0, open_below=True)
        if not policy.takes_surcharge:
            raise StagewiseError(
                f"diversity = {weight:g}: needs a policy that takes surcharges on clients, as those "
                f"that follow the pool do; {policy.title!r} does not"
            )
        self._rounds = 0
        self._times = np.zeros(0)
        self._lately = np.zeros(0)

    def decide(self, round_: Round) -> Answer:
        if self._rounds == 0:
            return super().decide(round_)
        surcharge = 0.5 * self.weight * (self._times / self._rounds + self._lately)
        return super().decide(round_.surcharged(surcharge))

    def observe(self, outcome: Outcome) -> None:
        served = outcome.decision.edge_of != UNASSIGNED
        if self._rounds == 0:
            self._times = self._lately = np.zeros(len(served))
        self._rounds += 1
        self._times = self._times + served
        self._lately = _FADING * self._lately + (1 - _FADING) * served
        super().observe(outcome)

    def state(self) -> State:
        own = {"rounds": self._rounds, "times": self._times, "lately": self._lately}
        return {**super().state(), **own}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._rounds, self._times, self._lately = state["rounds"], state["times"], state["lately"]
