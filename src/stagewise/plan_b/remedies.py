"""What to do with an edge that cannot be made feasible in a round (the paper's footnote to Alg. 4)."""

from typing import Literal, get_args

import numpy as np

from stagewise.decisions import Decision
from stagewise.errors import StagewiseError, shown
from stagewise.plan_b.repair import repair_by_lending
from stagewise.plans import Plan
from stagewise.problem.evaluation import Evaluation, evaluate
from stagewise.problem.risk_kernels import KLD_TOLERANCE
from stagewise.problem.statement import Mode
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import BoolArray, FloatArray, IntArray, Scenario

Remedy = Literal["drop", "reweight", "lend"]


def apply_remedy(
    remedy: Remedy, plan: Plan, round_: Round, index: int, mode: Mode, edge_of: IntArray
) -> IntArray:
    """`edge_of` after the remedy; a feasible assignment comes back as it is.

    `drop` leaves the failing edges out of the round: their clients do not train. `reweight` changes
    nobody's assignment; `edge_weights` says what the failing edges then count. `lend` lets long-term
    clients serve another edge than their own for this round (a relaxation of (12d) that `flexible`
    has anyway), and keeps the result only where it breaks less.
    """
    if remedy not in get_args(Remedy):
        raise StagewiseError(
            f"remedy = {shown(remedy)}: must be one of {', '.join(get_args(Remedy))}"
        )
    scenario = round_.scenario
    failing = failing_edges(scenario, evaluate(scenario, round_.costs, edge_of))
    if not failing.any() or remedy == "reweight":
        return edge_of
    if remedy == "drop":
        dropped = (edge_of != UNASSIGNED) & failing[edge_of]
        return np.where(dropped, UNASSIGNED, edge_of)
    if mode == "flexible":
        return edge_of
    lent = repair_by_lending(plan, round_, index)
    still = failing_edges(scenario, evaluate(scenario, round_.costs, lent))
    return lent if still.sum() < failing.sum() else edge_of


def failing_edges(scenario: Scenario, evaluation: Evaluation) -> BoolArray:
    """The edges that break (12a) or (12b)."""
    limits = scenario.limits
    short = evaluation.data < limits.data_min
    return np.asarray(short | (evaluation.kld > limits.kld_max + KLD_TOLERANCE))


def edge_weights(decision: Decision) -> FloatArray:
    """What each edge's data size is multiplied by in the cloud's average (Eq. 3) under `reweight`.

    1 for an edge within its limits; otherwise the share of data_min it reaches times the share of
    its divergence that is allowed, so that an edge counts the less the worse it is. An edge without
    clients has no say.
    """
    limits, evaluation = decision.scenario.limits, decision.evaluation
    enough = np.ones(len(evaluation.data))
    if limits.data_min > 0:
        enough = np.minimum(1.0, evaluation.data / limits.data_min)
    balanced = np.ones(len(evaluation.kld))
    unbalanced = evaluation.kld > limits.kld_max + KLD_TOLERANCE
    balanced[unbalanced] = limits.kld_max / evaluation.kld[unbalanced]
    return np.where(evaluation.clients > 0, enough * balanced, 0.0)
