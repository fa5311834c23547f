"""Async-HFL's association: useful clients and little throughput at every edge, by an integer program.

X. Yu et al.: Async-HFL: Efficient and Robust Asynchronous Federated Learning in Hierarchical IoT
Networks. IoTDI 2023, and `clientAssociation.py` of the authors.
"""

from dataclasses import dataclass

import numpy as np

from stagewise.selection.associator import Associator, links_of, place_by
from stagewise.world.checks import finite
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray, Scenario

_GAP = 0.1  # the authors' MIPGap
_NODES = 200  # where the authors stop after 100 seconds: the same on every machine


@dataclass(eq=False)
class AsyncHfl(Associator):
    """The association that maximises the least utility of an edge, less its largest load.

    Its learning utility needs a gradient of every client: the share of the global gradient in a
    client's, less what it has in common with the others'. Nobody has these before training, so the
    gradient of the output biases of a model that takes all labels to be equally likely stands in: the
    client's shares of labels less the even share. A link's throughput is one model in the time of an
    edge round: low loads mean slow links, which is no gain where a round waits for all. The bound of a
    gateway is open: here a model over each of its capacity's links at the mean throughput. Capacities
    are kept, and as many clients as possible are placed, which the paper, without capacities, need not
    say.

    Parameters
    ----------
    phi : float
        The weight of the load; 0.1 in the authors' code.
    seconds : float, optional
        The time that the integer program may take.
    """

    phi: float = 0.1
    seconds: float | None = None

    def __post_init__(self) -> None:
        finite("phi", self.phi, 0)

    def associate(self, round_: Round, clients: IntArray) -> IntArray:
        links = links_of(round_, clients)
        edge = round_.scenario.links.edge[links]
        links = links[round_.scenario.edges.capacity[edge] > 0]
        if len(links) == 0:
            return np.full(len(round_.online), UNASSIGNED)
        chosen = self._solve(round_, clients, links)
        if chosen is None:  # no solution within the time
            return place_by(round_, clients, round_.costs.delay_s)
        edge_of = np.full(len(round_.online), UNASSIGNED)
        edge_of[round_.scenario.links.client[chosen]] = round_.scenario.links.edge[chosen]
        return edge_of

    def _solve(self, round_: Round, clients: IntArray, links: IntArray) -> IntArray | None:
        """Those of `links` that are used: x_ij of the program; None where none was found in time."""
        from scipy.optimize import LinearConstraint, milp
        from scipy.sparse import block_array, csr_array

        scenario, count = round_.scenario, len(links)
        utility, load = link_terms(round_, clients, links)
        client = np.unique(scenario.links.client[links], return_inverse=True)[1]
        own, edge = np.unique(scenario.links.edge[links], return_inverse=True)
        each = np.arange(count)

        def sums(
            values: FloatArray, row: IntArray, slack: tuple[float, float] = (0, 0)
        ) -> csr_array:
            """Sums over the links of each row, and what they have of the two slack variables."""
            over_links = csr_array((values, (row, each)))
            return block_array(
                [[over_links, np.tile(slack, (over_links.shape[0], 1))]], format="csr"
            )

        ones = np.ones(count)
        once = LinearConstraint(sums(ones, client), ub=1)
        room = LinearConstraint(sums(ones, edge), ub=scenario.edges.capacity[own])
        limits = {"node_limit": _NODES, "mip_rel_gap": _GAP}
        if self.seconds is not None:
            limits["time_limit"] = self.seconds
        least_utility = LinearConstraint(sums(utility, edge, (-1, 0)), lb=0)
        largest_load = LinearConstraint(sums(load, edge, (0, -1)), ub=0)
        bounds = np.array([[0, 1]] * count + [[-np.inf, np.inf], [0, np.inf]])
        # How many can be placed at all: a flow, which is whole by itself.
        everybody = np.concatenate([ones, [0, 0]])
        most = milp(-everybody, bounds=tuple(bounds.T), constraints=[once, room])
        found = milp(
            np.concatenate([np.zeros(count), [-1, self.phi]]),
            integrality=everybody,
            bounds=tuple(bounds.T),
            constraints=[
                *(once, room, least_utility, largest_load),
                LinearConstraint(everybody[None], lb=round(-most.fun)),
            ],
            options=limits,
        )
        return None if found.x is None else links[found.x[:count] > 0.5]


def link_terms(round_: Round, clients: IntArray, links: IntArray) -> tuple[FloatArray, FloatArray]:
    """u of the client of each link, and the share of its edge's throughput that it takes."""
    scenario = round_.scenario
    utility = np.zeros(len(round_.online))
    utility[clients] = learning_utility(scenario, clients)
    throughput = 1 / np.maximum(round_.costs.delay_s[links], np.finfo(float).tiny)
    bound = scenario.edges.capacity[scenario.links.edge[links]] * throughput.mean()
    return utility[scenario.links.client[links]], throughput / bound


def learning_utility(scenario: Scenario, clients: IntArray) -> FloatArray:
    """u of `clients`: how far each pulls as all do together, less how far as each other one does."""
    data = scenario.clients.data[clients].astype(np.float64)
    gradient = scenario.clients.label_counts[clients] / data[:, None] - 1 / scenario.labels
    together = data @ gradient / data.sum()
    alike = gradient @ gradient.sum(axis=0) - (gradient**2).sum(axis=1)
    return np.asarray(gradient @ together - alike / max(len(clients) - 1, 1))
