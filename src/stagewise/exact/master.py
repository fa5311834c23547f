"""The linear master: one cluster for each edge, each client once, at the least cost.

minimise    weight_t T + weight_e sum_C energy_C x_C
subject to  sum over the clusters of edge j of x_C  = 1      (dual: what an edge pays)
            sum over the clusters with client i of x_C <= 1  (dual: a client's price)
            sum over the clusters of edge j of delay_C x_C <= T  (dual: a second's price)
            T is not below the least delay of the scope
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from stagewise.compiled import NONE
from stagewise.exact.columns import Columns, Prices
from stagewise.search.instance import Instance
from stagewise.world.scenario import FloatArray, IntArray

_SOLVED = 0


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """The master's optimum over the columns at hand, and its prices."""

    value: float
    edge_dual: FloatArray
    prices: Prices
    use: FloatArray
    """How much of each column is used."""
    unserved: float
    """How many edges, in fractions, no cluster serves."""
    delay: float
    """T."""


def solve_master(
    instance: Instance,
    columns: Columns,
    unserved_cost: float,
    least_delay: float = 0.0,
    seconds: float = np.inf,
) -> MasterSolution | None:
    """The master over the edges that `columns` has clusters of; None where it was not solved.

    An edge may stay unserved at `unserved_cost`. HiGHS gives up after `seconds`.
    """
    present, edge_row = np.unique(columns.edge, return_inverse=True)
    edges, count = len(present), len(columns)
    row, place = np.nonzero(columns.members != NONE)
    client = columns.members[row, place]
    covered, client_row = np.unique(client, return_inverse=True)
    # Variables: the columns, one "unserved" for each edge, and T.
    variables = count + edges + 1
    costs = instance.energy_weight * columns.energy, np.full(edges, unserved_cost)
    cost = np.concatenate([*costs, [instance.delay_weight]])
    numbers, each_edge = np.arange(count), np.arange(edges)
    equal = _matrix(
        (edges, variables),
        (np.ones(count), edge_row, numbers),
        (np.ones(edges), each_edge, count + each_edge),
    )
    unequal = _matrix(
        (len(covered) + edges, variables),
        (np.ones(len(row)), client_row, row),
        (columns.delay, len(covered) + edge_row, numbers),
        (np.full(edges, -1.0), len(covered) + each_edge, np.full(edges, variables - 1)),
    )
    limits = np.concatenate([np.ones(len(covered)), np.zeros(edges)])
    result = linprog(
        cost,
        A_ub=unequal,
        b_ub=limits,
        A_eq=equal,
        b_eq=np.ones(edges),
        bounds=np.column_stack(
            [np.append(np.zeros(variables - 1), least_delay), np.full(variables, np.inf)]
        ),
        method="highs-ds",
        options={"time_limit": seconds} if np.isfinite(seconds) else {},
    )
    if result.status != _SOLVED:
        return None
    marginals = np.maximum(-result.ineqlin.marginals, 0.0)
    client_price = np.zeros(len(instance.lock))
    client_price[covered] = marginals[: len(covered)]
    delay_price, edge_dual = np.zeros((2, len(instance.capacity)))
    delay_price[present] = marginals[len(covered) :]
    edge_dual[present] = result.eqlin.marginals
    # The bound needs prices of a second that sum to the weight of delay at the most.
    total = delay_price.sum()
    if total > instance.delay_weight:
        delay_price = delay_price * (instance.delay_weight / total)
    return MasterSolution(
        value=float(result.fun),
        edge_dual=edge_dual,
        prices=Prices(client_price, delay_price),
        use=result.x[:count],
        unserved=float(result.x[count : count + edges].sum()),
        delay=float(result.x[-1]),
    )


def _matrix(shape: tuple[int, int], *parts: tuple[FloatArray, IntArray, IntArray]) -> csr_matrix:
    """A sparse matrix from values with their rows and columns."""
    values, rows, columns = (np.concatenate(each) for each in zip(*parts, strict=True))
    return csr_matrix((values, (rows, columns)), shape=shape)
