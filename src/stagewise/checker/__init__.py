"""The checker: every figure and constraint of a plan or a decision recomputed from the paper.

It shares no code with what plans and decides, so that a mistake there cannot hide here: plain
arithmetic on the scenario's arrays, one equation after the other. `checker.bounds`, which needs a solver
and compiled code, is imported apart.
"""

from stagewise.checker.decisions import check
from stagewise.checker.plans import check_plan

__all__ = ["check", "check_plan"]
