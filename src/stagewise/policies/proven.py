"""Rounds that a policy leaves infeasible, settled by `exact`: feasible after all, or proven not to."""

import logging
import math
from dataclasses import replace

from stagewise.decisions import Answer
from stagewise.exact.solver import solve_exactly
from stagewise.policies.exact import DEFAULT_SECONDS, load_exact
from stagewise.policies.policy import Policy, Wrapper
from stagewise.problem.evaluation import evaluate, round_violations
from stagewise.problem.statement import p0, p2
from stagewise.world.checks import finite
from stagewise.world.rounds import Round

LOGGER = logging.getLogger(__name__)
"""Receives a line for each round that was infeasible."""


class Proven(Wrapper):
    """A policy whose infeasible rounds are given to `exact`.

    Where `exact` finds an assignment within the limits, that is the answer. Where it proves that there
    is none, or its time is over, the policy's own answer stands; the log says which. A proof may take
    a thousand times as long as a decision, so that no policy tries one by itself.

    Parameters
    ----------
    policy : Policy
        Any.
    seconds : float
        The time that the proof of one round may take.

    Examples
    --------
    >>> import stagewise
    >>> limits = stagewise.Limits(data_min=10**6)  # more than there is
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0, limits=limits)
    >>> policy = stagewise.Proven(stagewise.make_policy("fedcs", scenario))
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=1)
    >>> [decision.feasible for decision in stagewise.solve(scenario, rounds, policy)]
    [False]
    """

    def __init__(self, policy: Policy, seconds: float = DEFAULT_SECONDS) -> None:
        super().__init__(policy)
        self.seconds = finite("seconds", seconds, 0, open_below=True)
        load_exact()

    def decide(self, round_: Round) -> Answer:
        answer = super().decide(round_)
        if not round_violations(round_.scenario, evaluate(round_, answer.edge_of)):
            return answer
        problem = p0(round_) if self.plan is None else p2(round_, self.plan.edge_of, self.mode)
        found = solve_exactly(problem, seconds=self.seconds)
        if math.isfinite(found.value):
            LOGGER.info("round %d: feasible after all", round_.index)
            bounded = replace(answer, lower_bound=found.lower_bound)
            return self.reassigned(round_, bounded, found.assignment)
        proven = math.isinf(found.lower_bound)
        verdict = "proven infeasible" if proven else f"not settled within {self.seconds:g} s"
        LOGGER.info("round %d: %s", round_.index, verdict)
        return answer
