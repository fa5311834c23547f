"""A deployment without processes: a transport that fails as scripted, and what runs on it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from stagewise.deciding import wrapped
from stagewise.decisions import Decision
from stagewise.deploy.coordinator import Coordinator
from stagewise.deploy.costs import MeasuredCosts
from stagewise.deploy.deadlines import Deadlines
from stagewise.deploy.exchange import ClientReport, EdgeReport, Presence, RoundOrder, TrainedRound
from stagewise.deploy.in_process import covering_edges
from stagewise.deploy.records import (
    DEPLOYMENT,
    Deployment,
    LiveRecord,
    deployment_file,
    load_deployment,
)
from stagewise.deploy.up import run_session
from stagewise.loop import run_rounds
from stagewise.outcomes import Outcome
from stagewise.plans import Plan
from stagewise.policies.plan_policy import PlanPolicy
from stagewise.policies.policy import Policy
from stagewise.policies.remedied import Remedy
from stagewise.problem.statement import Mode
from stagewise.runs.config import Participation, RunConfig, make_config
from stagewise.runs.directory import RunDirectory
from stagewise.runs.metrics import RunMetrics
from stagewise.runs.run import Run
from stagewise.runs.session import policy_of_folder, policy_of_run
from stagewise.world.scenario import Clients, Edges, Limits, Links, Scenario

MODEL = {"w": np.zeros(4, dtype=np.float32)}
MODEL_BYTES = 16


def two_edges(
    clients: int = 6, *, edge_rounds: int = 2, data_min: float = 60, labels: int = 3
) -> Scenario:
    """Every client holds 30 samples of all labels and is covered by both of two edges."""
    return Scenario(
        clients=Clients(
            ids=tuple(f"c{i}" for i in range(clients)),
            label_counts=np.full((clients, labels), 30 // labels),
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


@dataclass
class ScriptedTransport:
    """Everyone answers and every update counts, except as `gone` and `spoil` have it.

    `gone[poll]` are the clients and edges that do not answer the poll of that number, from 0.
    `spoil(order, trained)` may change what a round gives. A counted round adds 1 to the model.
    """

    scenario: Scenario
    gone: Mapping[int, Collection[str]] = field(default_factory=dict)
    spoil: Callable[[RoundOrder, TrainedRound], TrainedRound] = lambda order, trained: trained
    train_s: float = 0.5
    overhead_s: float = 2.0
    polls: int = 0
    orders: list[RoundOrder] = field(default_factory=list)

    def roll_call(self, deadline_s: float) -> Presence:
        gone = set(self.gone.get(self.polls, ()))
        self.polls += 1
        edges_of = {
            client: tuple(edge for edge in edges if edge not in gone)
            for client, edges in covering_edges(self.scenario).items()
            if client not in gone
        }
        present = {client: edges for client, edges in edges_of.items() if edges}
        edges = tuple(edge for edge in self.scenario.edges.ids if edge not in gone)
        return Presence(present, dict.fromkeys(present, 1.5), edges)

    def train_round(self, order: RoundOrder) -> TrainedRound:
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
        return self.spoil(order, TrainedRound(weights, reports, edges, crossed, crossed, 7.0))

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
        "policy": "stagewise-strict",
        "rounds": 6,
        "seed": 0,
        "learning_rate": 0.1,
        "remedy": "lend",
        "participation": Participation(model="own"),
    }
    return make_config(**(given | fields))


def planned(scenario: Scenario, mode: Mode = "strict") -> PlanPolicy:
    """Even clients are long-term at es0, odd ones at es1."""
    edge_of = np.arange(len(scenario.clients)) % 2
    policy = PlanPolicy(plan_of(scenario, edge_of), "repair", mode)
    policy.name = "stagewise-strict"
    return policy


class LiveRound(NamedTuple):
    """A round with all that came of it."""

    decision: Decision
    outcome: Outcome
    live: LiveRecord
    weights: Mapping[str, Any]
    """The model after it."""


def coordinator_of(transport: Any, **fields: Any) -> Coordinator:
    scenario = transport.scenario
    given: dict[str, Any] = {
        "config": config_of(scenario),
        "scenario": scenario,
        "design": "H",
        "transport": transport,
        "weights": MODEL,
        "evaluate": Evaluator().evaluate,
        "deadlines": Deadlines(2.0, 2),
        "costs": MeasuredCosts(scenario),
    }
    return Coordinator(**(given | fields))


def play(
    transport: Any,
    rounds: int = 1,
    policy: Policy | None = None,
    *,
    remedy: Remedy | None = "lend",
    **fields: Any,
) -> tuple[Coordinator, list[LiveRound]]:
    """Rounds of a coordinator under a policy, in memory."""
    scenario = transport.scenario
    fields.setdefault("config", config_of(scenario, rounds=rounds))
    coordinator = coordinator_of(transport, **fields)
    decides = wrapped(planned(scenario) if policy is None else policy, remedy=remedy)
    played = []
    for decision, outcome, _ in run_rounds(decides, coordinator.rounds(0), coordinator):
        assert coordinator.live is not None
        played.append(LiveRound(decision, outcome, coordinator.live, coordinator.weights))
    return coordinator, played


class Evaluator:
    """In place of a trainer where nothing is trained."""

    output_bias = None

    def initial_weights(self) -> dict[str, Any]:
        return {name: array.copy() for name, array in MODEL.items()}

    def evaluate(self, weights: Mapping[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(accuracy=0.5, loss=float(weights["w"][0]))


def run_in(
    path: Path,
    transport: Any,
    policy: Policy | None = None,
    *,
    design: str = "H",
    measured_costs: bool = False,
    metrics: RunMetrics | None = None,
    **fields: Any,
) -> Run:
    """The run in `path` to its end or an interruption; it is begun if it is not there.

    `policy` is given again where it is one of the test's own.
    """
    scenario, trainer = transport.scenario, Evaluator()
    if path.exists():
        directory = RunDirectory.open(path)
        deployment, config = load_deployment(path), directory.config()
        decides = policy_of_folder(directory, policy)
    else:
        made = planned(scenario) if policy is None else policy
        config = config_of(scenario, **({"policy": made.title} | fields))
        config, decides = policy_of_run(config, made, RunDirectory(path))
        deployment = Deployment(
            design=design,
            deadline_factor=2.0,
            measured_costs=measured_costs,
            polls=0,
            clients=len(scenario.clients),
        )
        beside = {DEPLOYMENT: deployment_file(deployment)}
        directory = RunDirectory.create(path, config, scenario, [], decides.plan, beside)
    with directory.recording() as recorder:
        begun = config, scenario, deployment
        return run_session(directory, recorder, begun, transport, trainer, decides, metrics=metrics)
