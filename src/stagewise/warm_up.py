"""The compiled functions of the search, called on the smallest scenario there is."""

import numpy as np

from stagewise.problem.label_weights import label_weights
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import edge_risks, p0, p1
from stagewise.search.client_set import improve_client_set
from stagewise.search.instance import build_instance
from stagewise.search.local_search import Effort, local_search
from stagewise.world.rounds import Round
from stagewise.world.scenario import Clients, Edges, Limits, Links, Scenario


def load_search() -> None:
    """Load or compile local search and the measures of risk, on the smallest scenario there is.

    The compiled code is kept on disk, so only the first process after an installation takes long.
    """
    measure = risk_measure(smallest_scenario(), "exact", samples=64)
    instance = build_instance(p1(measure.scenario, measure))
    found = local_search(instance, effort=Effort(runs=1, moves_per_edge=10))
    edge_risks(measure, found.assignment)


def load_association() -> None:
    """The same for Algs. 2 and 3."""
    instance = build_instance(p0(Round(smallest_scenario(), np.ones(2, dtype=np.bool_))))
    improve_client_set(instance, np.arange(2))


def load_label_weights() -> None:
    """The same for the weights of clients."""
    scenario = smallest_scenario()
    label_weights(scenario, np.zeros(len(scenario.clients), dtype=np.int64))


def smallest_scenario() -> Scenario:
    """Two clients, two edges and every link between them."""
    return Scenario(
        clients=Clients(
            ids=("a", "b"),
            label_counts=np.array([[5, 0], [0, 5]]),
            cpu_hz=np.array([1e9, 2e9]),
            cycles_per_sample=np.full(2, 1e5),
            capacitance=np.full(2, 1e-28),
            batch_fraction=np.full(2, 0.1),
            tx_power_w=np.full(2, 0.5),
            online_probability=np.full(2, 0.8),
        ),
        edges=Edges(
            ids=("e", "f"),
            capacity=np.full(2, 2),
            bandwidth_hz=np.full(2, 1e6),
            uplink_delay_s=np.full(2, 0.1),
            uplink_energy_j=np.full(2, 0.1),
        ),
        limits=Limits(data_min=5, kld_max=1.0),
        links=Links(start=np.array([0, 2, 4]), edge=np.array([0, 1, 0, 1]), gain=np.full(4, 1e-9)),
    )
