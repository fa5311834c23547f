"""What to do with an edge that cannot be made feasible in a round (the paper's footnote to Alg. 4)."""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.plan_b.repair import repair_by_lending
from stagewise.policies.policy import Policy, Wrapper
from stagewise.problem.evaluation import Evaluation, evaluate
from stagewise.world.checks import one_of
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, Limits

Remedy = Literal["drop", "reweight", "lend"]


class Remedied(Wrapper):
    """A policy with a remedy for rounds that stay infeasible.

    Parameters
    ----------
    policy : Policy
        Any for `drop` and `reweight`; one that follows a plan for `lend`.
    remedy : {"drop", "reweight", "lend"}
        `drop` leaves the failing edges out of the round: their clients do not train. `reweight`
        lets failing edges count for less in the cloud's average. `lend` lets long-term clients
        serve another edge than their own for this round (a relaxation of (12d) that `flexible` has
        anyway), and keeps the result only where it breaks less.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> policy = stagewise.Remedied(stagewise.make_policy("fedcs", scenario), "drop")
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=1)
    >>> [decision.method for decision in stagewise.solve(scenario, rounds, policy)]
    ['fedcs']
    """

    def __init__(self, policy: Policy, remedy: Remedy) -> None:
        super().__init__(policy)
        self.remedy = checked_remedy(remedy)
        if remedy == "lend" and policy.plan is None:
            raise StagewiseError(
                f"remedy = 'lend': needs a policy that follows a plan; {policy.title!r} does not"
            )

    def decide(self, round_: Round) -> Answer:
        answer = super().decide(round_)
        if self.remedy == "reweight":
            return self.weigh(round_, answer)
        failing = evaluate(round_, answer.edge_of).failing
        if not failing.any():
            return answer
        if self.remedy == "drop":
            dropped = (answer.edge_of != UNASSIGNED) & failing[answer.edge_of]
            rest = np.where(dropped, UNASSIGNED, answer.edge_of)
            return self.weigh(round_, replace(answer, edge_of=rest))
        if self.mode == "flexible" or self.plan is None:
            return answer
        lent = repair_by_lending(self.plan, round_)
        fewer = evaluate(round_, lent).failing.sum() < failing.sum()
        return self.reassigned(round_, answer, lent) if fewer else answer

    def weigh(self, round_: Round, answer: Answer) -> Answer:
        if self.remedy == "reweight":
            evaluation = evaluate(round_, answer.edge_of)
            weights = edge_weights(round_.scenario.limits, evaluation)
            answer = replace(answer, edge_weights=weights)
        return super().weigh(round_, answer)


def checked_remedy(remedy: Remedy) -> Remedy:
    """`remedy` if it is one."""
    return one_of("remedy", remedy, get_args(Remedy))


def edge_weights(limits: Limits, evaluation: Evaluation) -> FloatArray:
    """What each edge's data size is multiplied by in the cloud's average (Eq. 3) under `reweight`.

    1 for an edge within its limits; otherwise the share of data_min it reaches times the share of
    its divergence that is allowed, so that an edge counts the less the worse it is. An edge without
    clients has no say.
    """
    weights = np.ones(len(evaluation.data))
    if limits.data_min > 0:
        weights = np.minimum(1.0, evaluation.data / limits.data_min)
    unbalanced = evaluation.unbalanced & (evaluation.clients > 0)
    weights[unbalanced] *= limits.kld_max / evaluation.kld[unbalanced]
    return np.where(evaluation.clients > 0, weights, 0.0)
