"""Small systems in which taking the cheapest first leaves an edge with nothing."""

from typing import Any

from stagewise.randomness import generator
from stagewise.world.scenario import Limits, Scenario, Weights

_LABELS = 10
_SAMPLES = 100  # of each label that a client holds
_SPARES = 3  # of each edge
_FEW = (5.0, 6.0)  # what a client costs that greed takes
_MANY = (20.0, 30.0)


def chain(seed: int, edges: int) -> Scenario:
    """`edges` edges of which each must leave its neighbour the client that it would like best.

    An edge serves two clients: a *key* with labels 0 to 4 and a *spare* with labels 5 to 9. Edge j
    reaches its own key at a high cost and that of edge j + 1 at a low one; the last edge has only its
    own. So each edge has its own in every feasible round, and a wrong choice can only be put right at
    all edges together. A spare reaches two edges. A *decoy* costs next to nothing everywhere, and with
    its labels no limit can be kept.
    """
    rng = generator(seed, "chain")
    half = _LABELS // 2
    clients: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []

    def client(name: str, labels: range, online: float) -> None:
        counts = {f"label_{h}": _SAMPLES if h in labels else 0 for h in range(_LABELS)}
        clients.append({"id": name, "online_probability": online, **counts})

    def link(name: str, edge: int, ends: tuple[float, float]) -> None:
        delay, energy = float(rng.uniform(1, 2)), float(rng.uniform(*ends))
        links.append(
            {"client": name, "edge": f"es{edge}", "delay_s": delay, "energy_j": energy},
        )

    for edge in range(edges):
        client(f"key{edge}", range(half), 1.0)
        link(f"key{edge}", edge, _MANY)
        if edge:
            link(f"key{edge}", edge - 1, _FEW)
        for number in range(_SPARES):
            name = f"spare{edge}-{number}"
            client(name, range(half, _LABELS), 0.8)
            link(name, edge, _FEW)
            link(name, (edge + 1) % edges, _FEW)
        client(f"decoy{edge}", range(half - 1, half + 1), 1.0)
        for other in range(edges):
            link(f"decoy{edge}", other, (0.1, 0.2))
    return Scenario.from_tables(
        clients,
        [
            {"id": f"es{edge}", "capacity": 2, "uplink_delay_s": 0.2, "uplink_energy_j": 0.1}
            for edge in range(edges)
        ],
        links,
        weights=Weights(),
        limits=Limits(data_min=_LABELS * _SAMPLES, kld_max=0.1),
    )
