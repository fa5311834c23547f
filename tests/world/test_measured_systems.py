"""Systems that others measured, from their own files to a decision that the checker confirms."""

import csv
from pathlib import Path

import numpy as np
import pytest

import stagewise
from stagewise import Limits, Scenario, Weights


def mesh(folder: Path) -> Scenario:
    """NYCMesh: seconds of a round trip with the model, and of each device's training."""
    delay = np.loadtxt(folder / "delay_client_to_gateway.csv", delimiter=",")
    training = np.loadtxt(folder / "comp.txt")
    uplink = np.loadtxt(folder / "delay_gateway_to_cloud.csv", delimiter=",")
    rng = np.random.default_rng(0)
    clients = [
        {"id": f"d{i}", "online_probability": 0.8}
        | {f"label_{h}": n for h, n in enumerate(rng.multinomial(300, rng.dirichlet([0.5] * 10)))}
        for i in range(len(delay))
    ]
    edges = [
        {"id": f"gw{j}", "capacity": 40, "uplink_delay_s": s, "uplink_energy_j": 0}
        for j, s in enumerate(uplink)
    ]
    links = [
        {"client": f"d{i}", "edge": f"gw{j}", "delay_s": delay[i, j] + training[i]}
        for i, j in np.argwhere(delay > 0)
    ]
    limits = Limits(data_min=900, kld_max=0.5)
    return Scenario.from_tables(clients, edges, links, weights=Weights(energy=0), limits=limits)


def orchestrated(path: Path) -> Scenario:
    """AIoTwin: what each link of a node costs; a partition is taken to hold two of ten labels."""
    with path.open(newline="") as stream:
        rows = [row for row in csv.reader(stream) if row]
    cost_of = {
        row[0]: {to: float(cost) for to, cost in (cell.split(":") for cell in row[2].split(","))}
        for row in rows
        if row[2]
    }
    edges = [
        {
            "id": row[0],
            "capacity": 20,
            "uplink_delay_s": 0,
            "uplink_energy_j": sum(cost_of[row[0]].values()),
        }
        for row in rows
        if row[1] == "local_aggregator"
    ]
    nodes = [row for row in rows if row[1] == "client"]
    clients = [
        {"id": row[0], "online_probability": 0.9}
        | {f"label_{h}": 100 * (int(row[5]) % 5 == h % 5) for h in range(10)}
        for row in nodes
    ]
    links = [
        {"client": row[0], "edge": to, "delay_s": 0, "energy_j": cost}
        for row in nodes
        for to, cost in cost_of[row[0]].items()
        if any(to == edge["id"] for edge in edges)
    ]
    limits = Limits(data_min=400, kld_max=1.0)
    return Scenario.from_tables(
        clients, edges, links, weights=Weights(delay=0, energy=1), limits=limits, edge_rounds=1
    )


def decided(scenario: Scenario, rounds: int = 4) -> list[stagewise.Decision]:
    """Every way to decide, each found true by the checker; those of the pool."""
    drawn = stagewise.participation.bernoulli(scenario, rounds=rounds, seed=1)
    for name in ("c2e-assoc-only", "local-search"):
        found = stagewise.solve(scenario, drawn, name)
        assert stagewise.check(scenario, found, drawn) == []
    plan = stagewise.plan(scenario, method="local-search", seconds=0.1)
    assert stagewise.check_plan(scenario, plan) == []
    decisions = stagewise.decide(plan, drawn, method="pool")
    assert stagewise.check(scenario, decisions, drawn) == []
    return decisions


@pytest.mark.slow("plans for 184 devices with risks of many members")
def test_a_mesh_network_of_184_devices_and_6_gateways(data_dir, tmp_path):
    scenario = mesh(data_dir / "nycmesh")
    assert (len(scenario.clients), len(scenario.edges), len(scenario.links)) == (184, 6, 525)
    assert scenario.costs.delay_s[0] == pytest.approx(109.064648 + 36.44202238428681540)
    stagewise.save_scenario(scenario, tmp_path / "s.json")
    assert stagewise.load_scenario(tmp_path / "s.json").sha256 == scenario.sha256
    decisions = decided(scenario)
    assert all(decision.feasible for decision in decisions)
    # The cheapest round avoids devices that train for hours; with everybody it would wait for them.
    slowest = scenario.edge_rounds * scenario.costs.delay_s.max()
    assert max(decision.delay_s for decision in decisions) < 0.1 * slowest


@pytest.mark.parametrize(("size", "clients", "edges"), [("small", 10, 2), ("big", 24, 5)])
def test_the_clusters_of_another_orchestrator(data_dir, size, clients, edges):
    scenario = orchestrated(data_dir / "aiotwin" / f"cluster_{size}.csv")
    assert (len(scenario.clients), len(scenario.edges)) == (clients, edges)
    for decision in decided(scenario):
        assert decision.delay_s == 0
        spent = sum(
            scenario.costs.energy_j[scenario.links.find(np.array([i]), np.array([edge]))[0]]
            for i, edge in enumerate(decision.edge_of)
            if edge >= 0
        )
        spent += scenario.edges.uplink_energy_j[
            np.unique(decision.edge_of[decision.edge_of >= 0])
        ].sum()
        assert decision.energy_j == pytest.approx(spent)
