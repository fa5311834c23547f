"""Results that nobody measured, in every form, for tests of tables, verdicts, pictures and pages."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from stagewise.randomness import generator
from stagewise.runs.target import rounds_to_target
from stagewise_experiments.cells import Cell, cells_of
from stagewise_experiments.experiment import Experiment
from stagewise_experiments.machine import Machine
from stagewise_experiments.results import CellResult, Result

POLICIES = [
    "pool-flexible",
    "stagewise-paper",
    "orig-prob-solver",
    "kld-minimization",
    "client-sel-only",
    "c2e-assoc-only",
    "c2e-greedy-assoc",
    "fedcs",
]
COST_FACTOR = dict(zip(POLICIES, (0.9, 1.1, 1.0, 1.4, 1.25, 1.6, 1.3, 1.7), strict=True))
MS = dict(zip(POLICIES, (3.0, 45.0, 2000.0, 800.0, 900.0, 20.0, 400.0, 150.0), strict=True))
MACHINE = Machine(
    cpu="Test CPU", cores=2, memory_gb=8.0, system="Linux x86_64", python="3.12.0",
    packages={"numpy": "2.0.0", "torch": "2.13.0"},
)  # fmt: skip

Outputs = dict[str, Any]


def experiment(**fields: Any) -> Experiment:
    """One with the given fields of its file, and the least of the others."""
    table: dict[str, Any] = {
        "id": "made-up",
        "title": "Made up",
        "paper": "Fig. 0",
        "about": "What nobody measured.",
        "measure": "training",
        "policies": POLICIES,
        "quantities": ["final_accuracy"],
        "panels": [{"form": "curves", "title": "Accuracy", "quantity": "accuracy"}],
        "profiles": {"quick": {"seeds": 3}},
        **fields,
    }
    return msgspec.convert(table, Experiment)


def result(
    of: Experiment,
    outputs: Callable[[Cell], Outputs | None],
    missing: Mapping[str, str] | None = None,
) -> Result:
    """The result whose cells have these outputs; a cell without any has failed."""
    cells = []
    for cell in cells_of(of, "quick", missing=list(missing or {})):
        found = outputs(cell)
        cells.append(
            CellResult(
                setting=cell.setting, point=cell.point, policy=cell.policy, seed=cell.seed,
                key=sha256(msgspec.json.encode(cell.setting)).hexdigest(), outputs=found, seconds=1.5,
                error=None if found is not None else "the worker died",
            )
        )  # fmt: skip
    return Result(
        experiment=of, profile="quick", cells=cells, machines=[MACHINE], code_version="0123456789abcdef",
        datasets=sorted({cell.setting.dataset for cell in cells}), stand_ins=dict(missing or {}),
    )  # fmt: skip


def round_of(objective: float = 1.0, **fields: Any) -> Outputs:
    return {
        "objective": objective, "delay_s": objective / 2, "energy_j": 3 * objective, "clients": 20,
        "kld": 0.1, "feasible": True, "decision_ms": 5.0, "lower_bound": None, **fields,
    }  # fmt: skip


def trained(
    cell: Cell, rounds: int = 30, level: float = 0.95, cost_factor: float | None = None
) -> Outputs:
    """A run whose accuracy rises towards `level`, with noise from the cell's seed."""
    setting, draw = cell.setting, generator(cell.seed, f"made-up {cell.policy} {cell.point}")
    factor = COST_FACTOR[cell.policy] if cost_factor is None else cost_factor
    cost = factor * (1 + 0.05 * draw.standard_normal())
    records = []
    for number in range(1, rounds + 1):
        accuracy = level * (1 - 0.75 * 0.86**number) + 0.006 * draw.standard_normal()
        records.append(
            round_of(
                cost * (1 + 0.1 * draw.standard_normal()),
                accuracy=min(accuracy, 1.0), loss=1 - accuracy,
                decision_ms=MS.get(cell.policy, 60.0) * draw.uniform(0.7, 1.3),
            )
        )  # fmt: skip
        if setting.target_accuracy is not None:
            curve = [record["accuracy"] for record in records]
            if rounds_to_target(curve, setting.target_accuracy) is not None:
                break
    return {
        "rounds": records, "plan_ms": [1200.0], "samples": 2000,
        "target_accuracy": setting.target_accuracy,
    }  # fmt: skip


def decided(cell: Cell, rounds: int = 10, slow: float = 1.0) -> Outputs:
    """A run of decisions, more expensive and slower as the policy is."""
    draw = generator(cell.seed, f"made-up {cell.policy} {cell.point}")
    cost, ms = COST_FACTOR.get(cell.policy, 0.85), MS.get(cell.policy, 9000.0)
    return {
        "rounds": [
            round_of(cost * draw.uniform(0.9, 1.1), decision_ms=ms * slow * draw.uniform(0.5, 1.5))
            for _ in range(rounds)
        ],
        "plan_ms": 900.0,
    }


def curves() -> Result:
    """Seven methods and the pool, with a stand-in for the data set and a claim of each kind."""
    of = experiment(
        id="fig-accuracy-cifar100", title="Test accuracy by round, CIFAR-100", paper="Fig. 2(d)",
        about="Test accuracy of seven methods on CIFAR-100.", group="Accuracy", order=10,
        setting={"dataset": "cifar100"},
        stand_ins={"cifar100": {"dataset": "cifar10", "note": "It has fewer classes."}},
        panels=[{"form": "curves", "title": "CIFAR-100", "quantity": "accuracy"}],
        profiles={"quick": {"seeds": 3, "note": "30 rounds of a small network."}},
        paper_values=[
            {"quantity": "final_accuracy", "policy": "stagewise-paper", "minus": "fedcs",
             "value": 0.0503, "better": "higher", "source": "Sec. VI-B"},
        ],
        claims=[
            {"text": "The pool is within 1 point of KLDMinimization", "quantity": "final_accuracy",
             "policy": "pool-flexible", "at_least": ["kld-minimization"], "margin": 0.01,
             "absolute": True, "ours": True},
            {"text": "StagewiseHFL is above FedCS", "quantity": "final_accuracy",
             "policy": "stagewise-paper", "at_least": ["fedcs"], "source": "Sec. VI-B"},
        ],
    )  # fmt: skip
    levels = dict(zip(POLICIES, (0.94, 0.93, 0.935, 0.95, 0.9, 0.86, 0.9, 0.88), strict=True))
    return result(of, lambda c: trained(c, level=levels[c.policy]), {"cifar100": "cifar10"})


def bars() -> Result:
    """Costs to a target that one method misses always and another sometimes; a cell has failed."""
    axis = {"name": "weights", "field": "scenario.weights", "label": "weights",
            "values": ["delay", "energy", "random"]}  # fmt: skip
    titles = {"delay": "(a) delay", "energy": "(b) energy", "random": "(c) cost"}
    quantities = {"delay": "delay_to_target", "energy": "energy_to_target",
                  "random": "cost_to_target"}  # fmt: skip
    of = experiment(
        id="fig-cost-eua", title="Delay, energy, cost and decision time to 90% on MNIST",
        paper="Fig. 3", about="EUA window.", group="Cost", order=20,
        axes=[axis], quantities=["delay_to_target", "cost_to_target", "decision_ms"],
        setting={"dataset": "mnist", "target_accuracy": 0.9, "rounds": 40},
        panels=[
            *({"form": "bars", "title": titles[w], "quantity": quantities[w],
               "where": {"weights": w}} for w in axis["values"]),
            {"form": "bars", "title": "(d) decision time", "quantity": "decision_ms",
             "where": {"weights": "random"}, "log": True},
        ],
        profiles={"quick": {"seeds": 5}},
        paper_values=[
            {"quantity": "delay_to_target", "policy": "stagewise-paper", "value": 0.132,
             "relative_to": "orig-prob-solver", "at": {"weights": "delay"}},
            {"quantity": "delay_to_target", "policy": "kld-minimization", "value": 0.476,
             "relative_to": "orig-prob-solver", "at": {"weights": "delay"}},
            {"quantity": "delay_to_target", "policy": "fedcs", "value": 0.732,
             "relative_to": "orig-prob-solver", "at": {"weights": "delay"},
             "why": "FedCS takes whoever is fast, whatever the labels"},
        ],
        claims=[
            {"text": "The pool is at or below every method in cost to 90%", "ours": True,
             "headline": True, "quantity": "cost_to_target", "policy": "pool-flexible",
             "at_most": POLICIES[1:], "at": {"weights": "random"}},
            {"text": "StagewiseHFL decides in less than 100 ms", "quantity": "decision_ms",
             "policy": "stagewise-paper", "below": 100},
        ],
    )  # fmt: skip

    def outputs(cell: Cell) -> Outputs | None:
        if cell.policy == "client-sel-only" and cell.seed == 1:
            return None
        level = {"c2e-assoc-only": 0.8, "fedcs": 0.89 if cell.seed < 2 else 0.95}
        return trained(cell, 40, level.get(cell.policy, 0.97))

    return result(of, outputs)


def sweep(quantity: str = "decision_ms", log: bool = True, measure: str = "decisions") -> Result:
    """Along the number of clients; missed targets where the measure is training."""
    training = measure == "training"
    of = experiment(
        id=f"fig-sweep-{measure}", title="Decision time against clients", paper="Fig. 5(a)",
        about="Set 1.", group="Sweeps", order=30, measure=measure, quantities=[quantity],
        axes=[{"name": "clients", "field": "scenario.clients", "label": "clients",
               "values": [75, 80, 90, 100, 120]}],
        setting={"target_accuracy": 0.9} if training else {},
        panels=[{"form": "sweep", "title": "Set 1", "quantity": quantity, "x": "clients",
                 "log": log}],
        profiles={"quick": {"seeds": 1 if not training else 3}},
        paper_values=[
            {"quantity": quantity, "policy": "client-sel-only", "value": 600.0,
             "at": {"clients": 75}},
            {"quantity": quantity, "policy": "client-sel-only", "value": 9800.0,
             "at": {"clients": 120}, "why": "ours is compiled"},
        ],
        claims=[
            {"text": "OrigProbSolver slows down with clients", "quantity": quantity,
             "policy": "orig-prob-solver", "rises_with": "clients"},
        ],
    )  # fmt: skip

    def outputs(cell: Cell) -> Outputs:
        if not training:
            return decided(cell, slow=(cell.setting.scenario.clients / 75) ** 3)
        clients = cell.setting.scenario.clients
        weak = cell.policy in ("fedcs", "c2e-assoc-only") and clients >= 100
        return trained(cell, level=0.85 if weak else 0.97)

    return result(of, outputs)


def matrix() -> Result:
    """Cost and rounds against two limits, with a corner that never gets there."""
    paper = {(2500, 0.2): (9.11, 19), (2000, 0.1): (18.09, 23), (5000, 0.5): (15.52, 25)}
    of = experiment(
        id="table-kld-dmin", title="Cost and rounds to 90% against kld_max and data_min",
        paper="Table III", about="MNIST.", group="Limits", order=40,
        policies=["pool-flexible", "stagewise-paper"],
        quantities=["cost_to_target", "rounds_to_target"],
        setting={"target_accuracy": 0.9},
        axes=[
            {"name": "data_min", "field": "scenario.data_min", "label": "data_min",
             "values": [2000, 2500, 3000, 4000, 5000]},
            {"name": "kld_max", "field": "scenario.kld_max", "label": "kld_max",
             "values": [0.1, 0.2, 0.3, 0.4, 0.5]},
        ],
        panels=[
            {"form": "matrix", "title": f"{title}, StagewiseHFL", "quantity": quantity,
             "x": "kld_max", "y": "data_min", "policy": "stagewise-paper"}
            for title, quantity in (("Cost", "cost_to_target"), ("Rounds", "rounds_to_target"))
        ],
        profiles={"quick": {"seeds": 2}},
        paper_values=[
            {"quantity": quantity, "policy": "stagewise-paper", "value": value,
             "at": {"data_min": data_min, "kld_max": kld_max}}
            for (data_min, kld_max), pair in paper.items()
            for quantity, value in zip(("cost_to_target", "rounds_to_target"), pair, strict=True)
        ],
    )  # fmt: skip

    def outputs(cell: Cell) -> Outputs:
        limits = cell.setting.scenario
        level = 0.85 if limits.data_min == 3000 and limits.kld_max == 0.5 else 0.97
        if limits.data_min == 4000 and limits.kld_max == 0.5 and cell.seed == 0:
            level = 0.85
        return trained(cell, 40, level, 0.3 + limits.data_min / 10000 + 0.05 / limits.kld_max)

    return result(of, outputs)


def groups() -> Result:
    """Bars in groups along an axis, and a sweep beside them, relative to another policy."""
    of = experiment(
        id="fig-high-p", title="Cost where nearly everyone comes", paper="Fig. 6(a)", about="p near 1.",
        group="Limits", order=41, measure="decisions", quantities=["objective", "over_optimum"],
        policies=[*POLICIES, "exact"],
        axes=[{"name": "p_min", "field": "scenario.p_min", "label": "least online probability",
               "values": [0.75, 0.85, 0.95]}],
        panels=[
            {"form": "bars", "title": "Cost", "quantity": "objective", "x": "p_min"},
            {"form": "sweep", "title": "Over OrigProbSolver", "quantity": "objective", "x": "p_min",
             "relative_to": "orig-prob-solver"},
            {"form": "sweep", "title": "Over the optimum", "quantity": "over_optimum", "x": "p_min"},
        ],
        profiles={"quick": {"seeds": 4}},
    )  # fmt: skip
    return result(of, decided)


ALL = (curves, bars, sweep, lambda: sweep("cost_to_target", False, "training"), matrix, groups)


def made_up(of: Experiment) -> Result:
    """Of any experiment: outputs of its measure that depend on the policy, the point and the seed."""
    known = {name: number for number, name in enumerate(of.policies)}

    def outputs(cell: Cell) -> Outputs:
        draw = generator(cell.seed, f"made-up {cell.policy} {cell.point}")
        factor = COST_FACTOR.get(cell.policy, 0.85 + 0.05 * known[cell.policy])
        if of.measure == "planning":
            clients = cell.setting.scenario.clients
            return {"plan_ms": 30.0 * clients * draw.uniform(0.8, 1.2), "objective": 3 * factor,
                    "feasible": True, "clients": 24}  # fmt: skip
        if of.measure == "risk":
            share = cell.setting.scenario.kld_risk * draw.uniform(0.6, 1.1)
            return {"kld_violation": share, "data_violation": share / 2, "kld_violation_worst": 0.4,
                    "data_violation_worst": 0.3, "feasible": share < 0.25, "plan_ms": 800.0,
                    "clients": 25}  # fmt: skip
        if of.measure == "decisions":
            return decided(cell, min(cell.setting.rounds, 5))
        level = 0.9 + 0.08 * draw.uniform()
        return trained(cell, min(cell.setting.rounds, 40), level, factor)

    return result(of, outputs, {real: other.dataset for real, other in of.stand_ins.items()})
