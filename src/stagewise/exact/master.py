"""The linear master: one cluster for each edge, each client once, at the least cost.

minimise    weight_t T + weight_e sum_C energy_C x_C
subject to  sum over the clusters of edge j of x_C  = 1      (dual: what an edge pays)
            sum over the clusters with client i of x_C <= 1  (dual: a client's price)
            sum over the clusters of edge j of delay_C x_C <= T  (dual: a second's price)
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, csr_matrix

from stagewise.exact.columns import NOBODY, Columns
from stagewise.search.instance import Instance
from stagewise.world.scenario import FloatArray


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """The master's optimum over the columns at hand, and its prices."""

    value: float
    edge_dual: FloatArray
    client_price: FloatArray
    delay_price: FloatArray
    use: FloatArray
    """How much of each column is used."""
    unserved: float
    """How many edges, in fractions, no cluster serves."""

    def bound(self, least_reduced_cost: FloatArray) -> float:
        """A lower bound on P0 from the least reduced cost over *all* clusters of each edge."""
        return float(
            self.edge_dual.sum() - self.client_price.sum() + np.minimum(least_reduced_cost, 0).sum()
        )


def solve_master(instance: Instance, columns: Columns, unserved_cost: float) -> MasterSolution:
    """The master over `columns`; an edge may stay unserved at `unserved_cost`."""
    edges, count = len(instance.capacity), len(columns)
    row, place = np.nonzero(columns.members != NOBODY)
    client = columns.members[row, place]
    wanted, client_row = np.unique(client, return_inverse=True)
    # Variables: the columns, one "unserved" for each edge, and T.
    variables = count + edges + 1
    cost = np.concatenate(
        [
            instance.energy_weight * columns.energy,
            np.full(edges, unserved_cost),
            [instance.delay_weight],
        ]
    )
    numbers = np.arange(count)
    equal = coo_matrix(
        (
            np.ones(count + edges),
            (
                np.concatenate([columns.edge, np.arange(edges)]),
                np.concatenate([numbers, count + np.arange(edges)]),
            ),
        ),
        shape=(edges, variables),
    )
    unequal = coo_matrix(
        (
            np.concatenate([np.ones(len(row)), columns.delay, np.full(edges, -1.0)]),
            (
                np.concatenate(
                    [client_row, len(wanted) + columns.edge, len(wanted) + np.arange(edges)]
                ),
                np.concatenate([row, numbers, np.full(edges, variables - 1)]),
            ),
        ),
        shape=(len(wanted) + edges, variables),
    )
    limits = np.concatenate([np.ones(len(wanted)), np.zeros(edges)])
    result = linprog(
        cost,
        A_ub=csr_matrix(unequal),
        b_ub=limits,
        A_eq=csr_matrix(equal),
        b_eq=np.ones(edges),
        method="highs",
    )
    if result.status != 0:
        raise RuntimeError(f"the linear master was not solved: {result.message}")
    marginals = np.maximum(-result.ineqlin.marginals, 0.0)
    client_price = np.zeros(len(instance.lock))
    client_price[wanted] = marginals[: len(wanted)]
    delay_price = marginals[len(wanted) :]
    # The bound needs prices of a second that sum to the weight of delay at the most.
    total = delay_price.sum()
    if total > instance.delay_weight:
        delay_price = delay_price * (instance.delay_weight / total)
    return MasterSolution(
        value=float(result.fun),
        edge_dual=np.asarray(result.eqlin.marginals),
        client_price=client_price,
        delay_price=delay_price,
        use=result.x[:count],
        unserved=float(result.x[count : count + edges].sum()),
    )
