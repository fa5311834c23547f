"""A scenario, a model and clients in memory that train it, for tests of the strategy."""

import numpy as np
from fake_grid import FakeGrid, context_of, reply_with
from flwr.app import Array, ArrayRecord, MetricRecord

from helpers import random_scenario
from stagewise.decisions import Answer
from stagewise.flower import answer_query
from stagewise.flower.query import MESSAGE_TYPE
from stagewise.policies.policy import Policy
from stagewise.world.scenario import Limits

LIMITS = Limits(kld_max=0.6, data_min=60, kld_risk=0.6, data_risk=0.6)
FIRST_NODE = 1000


def a_scenario(seed=1, clients=10, edges=3):
    return random_scenario(seed, clients, edges, limits=LIMITS, isolated=0, capacity=(4, 6))


class FirstFreeEdge(Policy):
    """Everyone who is there trains, at the first of its edges that has room."""

    def __init__(self, edge_weights=None, client_weights=None):
        self.weights = {"edge_weights": edge_weights, "client_weights": client_weights}
        self.outcomes = []

    def decide(self, round_):
        links = round_.scenario.links
        edge_of = np.full(len(round_.online), -1)
        room = round_.scenario.edges.capacity.copy()
        for client in np.flatnonzero(round_.online):
            for edge in links.edge[links.start[client] : links.start[client + 1]]:
                if room[edge] > 0:
                    edge_of[client], room[edge] = edge, room[edge] - 1
                    break
        return Answer(edge_of, **self.weights)

    def observe(self, outcome):
        self.outcomes.append(outcome)


def a_model():
    rng = np.random.default_rng(0)
    return {
        "weight": rng.normal(size=(3, 2)).astype(np.float32),
        "bias": rng.normal(size=2),
        "batches": np.array(7),
    }


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def numbers(arrays):
    return {name: array.numpy() for name, array in arrays.items()}


def trained(arrays, client):
    """What client `client` makes of a model: depends on both, so that no mix-up goes unnoticed."""
    return {
        "weight": (arrays["weight"] * np.float32(0.5) + np.float32(client)).astype(np.float32),
        "bias": arrays["bias"] - 0.1 * (client + 1) * arrays["bias"] ** 2,
        "batches": arrays["batches"] + client,
    }


class Client:
    """A node that answers and trains; `spoil` may change its answer or its update."""

    def __init__(self, number, node_config=None, spoil=None):
        self.number, self.spoil = number, spoil
        self.config = {"client-id": f"c{number}"} if node_config is None else node_config

    def __call__(self, message):
        kind = message.metadata.message_type
        if kind == MESSAGE_TYPE:
            return answer_query(message, context_of(self.config))
        if kind == "evaluate":
            metrics = MetricRecord({"num-examples": self.number + 1, "score": float(self.number)})
            return reply_with(message, metrics=metrics)
        arrays = trained(numbers(message.content["arrays"]), self.number)
        metrics = {"num-examples": self.number + 1, "loss": float(self.number)}
        if self.spoil is not None:
            arrays, metrics = self.spoil(message, arrays, metrics)
        if arrays is None:
            return None
        return reply_with(message, arrays=record(arrays), metrics=MetricRecord(metrics))


def a_grid(clients=10, **spoilt):
    """Node 1000 + i is client i; `spoilt` is by id."""
    return FakeGrid({FIRST_NODE + i: Client(i, spoil=spoilt.get(f"c{i}")) for i in range(clients)})


def start(strategy, grid, rounds=1, model=None, **more):
    return strategy.start(
        grid, record(a_model() if model is None else model), rounds, timeout=5, **more
    )


def mean_by_edge(model, decision, data, spared=(), edge_rounds=1, share=None, client_weights=None):
    """Eqs. 2 and 3 written out in float64; `spared` clients send nothing."""
    edges, weights = [], []
    for edge in dict.fromkeys(decision.assignment.values()):
        members = [
            int(client[1:])
            for client, own in decision.assignment.items()
            if own == edge and client not in spared
        ]
        if not members:
            continue
        counted = {
            i: data[i] * (1 if client_weights is None else client_weights[i]) for i in members
        }
        at_edge = model
        for _ in range(edge_rounds):
            updates = [trained(at_edge, i) for i in members]
            size = sum(data[i] for i in members)
            at_edge = {
                name: (
                    max(update[name] for update in updates)
                    if name == "batches"
                    else sum(
                        counted[i] * u[name].astype(float)
                        for i, u in zip(members, updates, strict=True)
                    )
                    / sum(counted.values())
                ).astype(model[name].dtype)
                for name in model
            }
        edges.append(at_edge)
        weights.append(size * (1 if share is None else share[edge]))
    return {
        name: sum(w * e[name].astype(float) for w, e in zip(weights, edges, strict=True))
        / sum(weights)
        for name in model
    }


def assert_close(result, expected):
    got = numbers(result.arrays)
    assert got.keys() == expected.keys()
    for name, array in got.items():
        assert array.dtype == a_model()[name].dtype
        if name != "batches":
            np.testing.assert_allclose(array, expected[name], rtol=1e-6, atol=1e-6)
        else:
            assert array == np.rint(expected[name])


def fail(message, arrays, metrics):
    raise ValueError("no data left")


def changed(**changes):
    def spoil(message, arrays, metrics):
        arrays = {**arrays, **changes}
        return {name: array for name, array in arrays.items() if array is not None}, metrics

    return spoil


FAULTS = {
    "nan": (changed(bias=np.array([0.0, np.nan])), "rejected", "bias"),
    "infinite": (changed(weight=np.full((3, 2), np.inf, np.float32)), "rejected", "weight"),
    "shape": (changed(weight=np.zeros((2, 3), np.float32)), "rejected", "(2, 3)"),
    "scalar": (changed(bias=np.zeros(())), "rejected", "bias"),
    "type": (changed(bias=np.zeros(2, np.float32)), "rejected", "float32"),
    "missing": (changed(bias=None), "rejected", "bias"),
    "extra": (changed(trojan=np.zeros(2)), "rejected", "trojan"),
    "error": (fail, "rejected", "ValueError: no data left"),
    "silence": (lambda *_: (None, None), "late", "no reply in time"),
}
