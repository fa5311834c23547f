"""Balance over rounds: labels that were served too little make the clients that hold them cheaper."""

import numpy as np

from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.loading import load
from stagewise.outcomes import Outcome, State
from stagewise.policies.plan_policy import pool_flexible
from stagewise.policies.policy import Policy, Wrapper, wrapped_in
from stagewise.pool.surcharge import surcharged
from stagewise.problem.evaluation import evaluate
from stagewise.problem.statement import p0, p2
from stagewise.search.fast_links import fast_links
from stagewise.search.instance import build_instance
from stagewise.search.local_search import Effort, local_search
from stagewise.warm_up import load_search
from stagewise.world.checks import finite
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, Scenario

WEIGHT = 1.0
SHARE = 0.05
"""What balance may add to a round's cost: as much as it was seen to save in rounds (docs/targets.md)."""
_FADING = 0.9  # what a round more leaves of the labels served before
_LEAST_SHARE = 1e-4  # of a label that nobody online holds: what it is worth has an end
_TRIES = 2  # the second with half of the surcharge
_TOLERANCE = 1e-12
# Hardly above a descent: half a millisecond with four edges.
_EFFORT = Effort(
    runs=1, moves_per_edge=1_000, start_temperature=0.02, end_temperature=0.005, fix_runs=0
)


class LabelBalanced(Wrapper):
    """A policy whose rounds make up for what the rounds before were short of.

    The limit on KLD lets every edge be a little off the target distribution, and the cheapest clients
    are off it in the same direction in every round, so that the model is, too. The labels served so far
    are a distribution of their own. The other policy decides as if there were nothing to balance; then
    clients are exchanged, where one that brings that distribution closer to the target costs less than
    one that does not. Nobody comes in over a link that is slower than the slowest before, limits are
    kept, and a round never costs more than `share` above what the other policy decided. A round that it
    leaves in violation of limits stays as it is.

    Parameters
    ----------
    policy : Policy
        One that takes surcharges: it chooses by what clients cost. Diversity belongs around the whole,
        `Diverse(LabelBalanced(policy), weight)`, or the exchanges would undo it.
    weight : float
        At 1, a client costs one typical client more for each unit (a factor of e) by which its labels
        have been served above the target.
    share : float
        The most that balance may add to what a round costs.

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

    def __init__(self, policy: Policy, weight: float = WEIGHT, share: float = SHARE) -> None:
        super().__init__(policy)
        self.weight = finite("weight", weight, 0, open_below=True)
        self.share = finite("share", share, 0)
        if not policy.takes_surcharge:
            raise StagewiseError(
                f"label balance: needs a policy that takes surcharges on clients, as those that "
                f"follow the pool do; {policy.title!r} does not"
            )
        if policy.binding:
            raise StagewiseError(
                f"label balance: needs a policy whose answers may be changed; {policy.title!r} is a "
                f"service's, which has `pool-balanced` itself"
            )
        if policy.mode == "strict" and policy.plan is None:
            raise StagewiseError(
                f"label balance: needs to know the plan of a strict policy; {policy.title!r} does not "
                f"tell it"
            )
        self._served: FloatArray | None = None
        """Shares of labels, summed over rounds that fade; before the first the target's."""
        load(load_search)

    def decide(self, round_: Round) -> Answer:
        answer = super().decide(round_)
        if self._served is None:
            return answer
        before = evaluate(round_, answer.edge_of)
        if before.failing.any():
            return answer
        problem = p0(round_) if self.plan is None else p2(round_, self.plan.edge_of, self.mode)
        as_fast = fast_links(problem, before.delay_s * (1 + _TOLERANCE))
        instance = build_instance(problem, usable=as_fast)
        given = 0.0 if round_.surcharge is None else round_.surcharge
        own = self.weight * label_surcharge(round_.scenario, self._served)
        for _ in range(_TRIES):
            prices = surcharged(instance, instance.price_scale * (given + own))
            found = local_search(prices, answer.edge_of, effort=_EFFORT)
            cost = evaluate(round_, found.assignment).cost
            if found.violation == 0 and cost <= (1 + self.share) * before.cost:
                return self.reassigned(round_, answer, found.assignment)
            own = own / 2
        return answer

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


def label_surcharge(scenario: Scenario, served: FloatArray) -> FloatArray:
    """How much more serving each client takes the labels served from the target (Eq. 7).

    The derivative of KL(served || target) by a share of the client's own labels, up to a constant
    that makes the least of them 0.
    """
    own = scenario.clients.label_counts / scenario.clients.data[:, None]
    above = np.log(np.maximum(served / served.sum(), _LEAST_SHARE) / scenario.target)
    slope = own @ above
    return np.asarray(slope - slope.min())


pool_balanced = wrapped_in(LabelBalanced, pool_flexible, "pool-balanced")
"""The pool, free in every round, with labels in balance over the rounds."""
