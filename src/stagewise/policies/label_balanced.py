"""Balance over rounds: labels that were served too little make the clients that hold them cheaper."""

import numpy as np

from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.outcomes import Outcome, State
from stagewise.plans import Plan
from stagewise.policies.plan_policy import pool_flexible
from stagewise.policies.policy import Policy, Wrapper
from stagewise.progress import ProgressCallback, ignore_progress
from stagewise.world.checks import finite
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, Scenario

WEIGHT = 0.5
_FADING = 0.9  # what a round more leaves of the labels served before
_LEAST_SHARE = 1e-4  # of a label that nobody online holds: what it is worth has an end


class LabelBalanced(Wrapper):
    """A policy whose rounds make up for what the rounds before were short of.

    The limit on KLD lets every edge be a little off the target distribution, and the cheapest clients
    are off it in the same direction in every round, so that the model is, too. The labels served so far
    are a distribution of their own; a client that would bring it closer to the target costs less than
    one that would not. What is changed is who is cheap, not the limits.

    Parameters
    ----------
    policy : Policy
        One that takes surcharges.
    weight : float
        At 1, a client costs one typical client more for each unit (a factor of e) by which its labels
        have been served above the target.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> policy = stagewise.LabelBalanced(stagewise.make_policy("pool", scenario))
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2)
    >>> [decision.method for decision in stagewise.solve(scenario, rounds, policy)]
    ['pool-flexible', 'pool-flexible']
    """

    uses_feedback = False  # who served is decided, not learned

    def __init__(self, policy: Policy, weight: float = WEIGHT) -> None:
        super().__init__(policy)
        self.weight = finite("weight", weight, 0, open_below=True)
        if not policy.takes_surcharge:
            raise StagewiseError(
                f"label balance: needs a policy that takes surcharges on clients, as those that "
                f"follow the pool do; {policy.title!r} does not"
            )
        self._served: FloatArray | None = None
        """Shares of labels, summed over rounds that fade; before the first the target's."""

    def decide(self, round_: Round) -> Answer:
        if self._served is None:
            return super().decide(round_)
        return super().decide(round_.surcharged(self._surcharge(round_.scenario, self._served)))

    def _surcharge(self, scenario: Scenario, served: FloatArray) -> FloatArray:
        """How much more serving each client takes the labels served from the target (Eq. 7).

        The derivative of KL(served || target) by a share of the client's own labels, up to a constant
        that makes the least of them 0.
        """
        own = scenario.clients.label_counts / scenario.clients.data[:, None]
        above = np.log(np.maximum(served / served.sum(), _LEAST_SHARE) / scenario.target)
        surcharge = self.weight * (own @ above)
        return np.asarray(surcharge - surcharge.min())

    def observe(self, outcome: Outcome) -> None:
        scenario = outcome.decision.scenario
        trained = scenario.clients.label_counts[outcome.decision.edge_of != UNASSIGNED].sum(axis=0)
        if trained.sum():
            before = scenario.target if self._served is None else self._served
            self._served = _FADING * before + trained / trained.sum()
        super().observe(outcome)

    def state(self) -> State:
        own = {} if self._served is None else {"served": self._served}
        return {**super().state(), **own}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._served = state.get("served")


def pool_balanced(
    scenario: Scenario,
    *,
    seed: int,
    seconds: float | None,
    plan: Plan | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Policy:
    """The pool, free in every round, with labels in balance over the rounds."""
    pool = pool_flexible(scenario, seed=seed, seconds=seconds, plan=plan, progress=progress)
    policy = LabelBalanced(pool)
    policy.name = "pool-balanced"
    return policy
