"""A deployment without processes: a transport that fails as it is told, and what drives it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from stagewise.deploy.coordinator import Coordinator
from stagewise.deploy.costs import MeasuredCosts
from stagewise.deploy.deadlines import Deadlines
from stagewise.deploy.records import Deployment, load_deployment, save_deployment
from stagewise.deploy.remaining import LivePlanPolicy
from stagewise.deploy.session import LiveSession
from stagewise.deploy.transport import ClientReport, EdgeReport, Order, Outcome, Presence
from stagewise.plans import Plan
from stagewise.policy import Policy
from stagewise.simulator.config import Participation, RunConfig, make_config
from stagewise.simulator.decider import Decider
from stagewise.simulator.directory import RunDirectory
from stagewise.simulator.run import Run
from stagewise.world.scenario import Clients, Edges, Limits, Links, Scenario

MODEL = {"w": np.zeros(4, dtype=np.float32)}
MODEL_BYTES = 16


def two_edges(clients: int = 6, *, edge_rounds: int = 2, data_min: float = 60) -> Scenario:
    """Every client holds 30 samples of all labels and is covered by both of two edges."""
    return Scenario(
        clients=Clients(
            ids=tuple(f"c{i}" for i in range(clients)),
            label_counts=np.full((clients, 3), 10),
            cpu_hz=np.linspace(1e9, 2e9, clients),
            cycles_per_sample=np.full(clients, 1e8),
            capacitance=np.full(clients, 1e-28),
            batch_fraction=np.full(clients, 0.1),
            tx_power_w=np.full(clients, 0.5),
            online_probability=np.full(clients, 0.9),
        ),
        edges=Edges(
            ids=("es0", "es1"),
            capacity=np.array([clients, clients]),
            bandwidth_hz=np.full(2, 1e6),
            uplink_delay_s=np.array([0.2, 0.3]),
            uplink_energy_j=np.full(2, 0.1),
        ),
        links=Links(
            start=2 * np.arange(clients + 1),
            edge=np.tile([0, 1], clients),
            gain=np.full(2 * clients, 5e-9),
        ),
        edge_rounds=edge_rounds,
        limits=Limits(kld_max=0.1, data_min=data_min),
    )


def plan_of(scenario: Scenario, edge_of: Sequence[int]) -> Plan:
    """A plan whose figures nobody looks at."""
    edges = len(scenario.edges)
    return Plan(
        scenario=scenario,
        method="local-search",
        seed=0,
        edge_of=np.array(edge_of, dtype=np.int64),
        objective=0.0,
        delay_s=0.0,
        energy_j=0.0,
        continuity=0.0,
        kld_risk=np.zeros(edges),
        data_risk=np.zeros(edges),
        violations=(),
        plan_ms=0.0,
    )


def covering(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """The edges of each client."""
    links = scenario.links
    return {
        client: tuple(
            scenario.edges.ids[j] for j in links.edge[links.start[i] : links.start[i + 1]]
        )
        for i, client in enumerate(scenario.clients.ids)
    }


@dataclass
class ScriptedTransport:
    """Everyone is there and every update counts, except as `gone` and `spoil` have it.

    `gone[poll]` are the clients and edges that do not answer the poll of that number, from 0.
    `spoil(order, outcome)` may change what a round gives. A counted round adds 1 to the model.
    """

    scenario: Scenario
    gone: Mapping[int, Collection[str]] = field(default_factory=dict)
    spoil: Callable[[Order, Outcome], Outcome] = lambda order, outcome: outcome
    train_s: float = 0.5
    overhead_s: float = 2.0
    polls: int = 0
    orders: list[Order] = field(default_factory=list)

    def who_is_there(self, deadline_s: float) -> Presence:
        gone = set(self.gone.get(self.polls, ()))
        self.polls += 1
        edges_of = {
            client: tuple(edge for edge in edges if edge not in gone)
            for client, edges in covering(self.scenario).items()
            if client not in gone
        }
        there = {client: edges for client, edges in edges_of.items() if edges}
        edges = tuple(edge for edge in self.scenario.edges.ids if edge not in gone)
        return Presence(there, dict.fromkeys(there, 1.5), edges)

    def train_round(self, order: Order) -> Outcome:
        self.orders.append(order)
        index, data = self.scenario.clients.index, self.scenario.clients.data
        reports = tuple(
            self.report(client, edge, edge_round)
            for edge, members in order.groups.items()
            for edge_round in range(self.scenario.edge_rounds)
            for client in members
        )
        edges = tuple(
            EdgeReport(edge, "counted", "", sum(int(data[index[client]]) for client in members))
            for edge, members in order.groups.items()
        )
        crossed = MODEL_BYTES * len(edges)
        weights = {name: array + 1 for name, array in order.weights.items()}
        return self.spoil(order, Outcome(weights, reports, edges, crossed, crossed, 7.0))

    def report(self, client: str, edge: str, edge_round: int) -> ClientReport:
        trip_s = self.train_s + self.overhead_s
        return ClientReport(
            *(client, edge, edge_round, "counted", ""),
            *(self.train_s, trip_s, MODEL_BYTES, MODEL_BYTES),
        )


def config_of(scenario: Scenario, **fields: Any) -> RunConfig:
    given: dict[str, Any] = {
        "dataset": "none",
        "dataset_fingerprint": "",
        "scenario": "given",
        "scenario_sha256": scenario.sha256,
        "model": "none",
        "policy": "planned",
        "rounds": 6,
        "seed": 0,
        "learning_rate": 0.1,
        "remedy": "lend",
        "participation": Participation(model="own"),
    }
    return make_config(**(given | fields))


def planned(scenario: Scenario, remedy: str = "lend", mode: str = "strict") -> LivePlanPolicy:
    """Even clients are long-term at es0, odd ones at es1."""
    edge_of = np.arange(len(scenario.clients)) % 2
    return LivePlanPolicy(plan_of(scenario, edge_of), "repair", mode, remedy=remedy)


def coordinator_of(transport: Any, policy: Policy, **fields: Any) -> Coordinator:
    scenario = transport.scenario
    config = fields.pop("config", config_of(scenario))
    given: dict[str, Any] = {
        "config": config,
        "scenario": scenario,
        "design": "H",
        "transport": transport,
        "decider": Decider(policy, "planned", None, config.replanning, lambda ordered, plan: None),
        "evaluate": lambda weights: SimpleNamespace(accuracy=0.5, loss=float(weights["w"][0])),
        "deadlines": Deadlines(2.0, 2),
        "costs": MeasuredCosts(scenario),
    }
    return Coordinator(**(given | fields))


class StandInTeam:
    """Evaluates without training anything."""

    def initial_weights(self) -> dict[str, Any]:
        return {name: array.copy() for name, array in MODEL.items()}

    def evaluate(self, weights: Mapping[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(accuracy=0.5, loss=float(weights["w"][0]))


def sit(
    path: Path,
    transport: Any,
    policy: Policy | None = None,
    *,
    design: str = "H",
    measured_costs: bool = False,
    **fields: Any,
) -> Run:
    """One sitting of the run in `path`, which is begun if it is not there."""
    scenario = transport.scenario
    chosen = planned(scenario) if policy is None else policy
    if path.exists():
        directory = RunDirectory.open(path)
        deployment, config = load_deployment(path), directory.config()
        plan = directory.plan(scenario)
        if plan is not None:
            chosen = LivePlanPolicy(plan, "repair", "strict", remedy="lend")
    else:
        config = config_of(scenario, **fields)
        deployment = Deployment(
            design=design, deadline_factor=2.0, measured_costs=measured_costs, polls=0
        )
        plan = chosen.plan if isinstance(chosen, LivePlanPolicy) else None
        directory = RunDirectory.create(path, config, scenario, [], plan)
        save_deployment(deployment, path)
    with directory.recording() as recorder:
        team: Any = StandInTeam()
        session = LiveSession(deployment, config, scenario, chosen, transport, team)
        return session.run(directory, recorder)
