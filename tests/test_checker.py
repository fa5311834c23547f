"""The checker: a true record gives no line, and every kind of falsehood gives one that names it."""

import ast
import copy
import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from references import decision_of, plain_scenario, random_assignment, random_round
from stagewise.checker import check, check_plan
from stagewise.checker.risks import EXACT_MEMBERS
from stagewise.decisions import DecisionRecord
from stagewise.errors import StagewiseError
from stagewise.plans import PlanRecord, make_plan
from stagewise.problem import risk_kernels
from stagewise.problem.risk import risk_measure
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario

MEASURES = ("exact", "sampled", "markov")
SEEDS = st.integers(0, 2**32 - 1)


def world() -> Scenario:
    """Three edges, one's id the beginning of another's; c5 is covered by the first alone."""
    return plain_scenario(
        [[60, 60], [70, 50], [55, 55], [10, 10], [80, 20], [30, 30], [90, 0], [5, 5]],
        [[0, 1], [1, 2], [2], [0, 1, 2], [0, 1, 2], [0], [0, 1], [0, 2]],
        online=[0.9, 0.8, 1, 0.7, 0.6, 0.95, 0.5, 0.9],
        capacity=[3, 2, 2],
        edge_ids=["e1", "e10", "es: x"],
        limits=Limits(kld_max=0.1, data_min=100, kld_risk=0.3, data_risk=0.3),
    )


def rounds_of(scenario: Scenario) -> list[Round]:
    """In both rounds c7 is offline; the second has its own CPUs and gains."""
    online = np.arange(8) != 7
    cpu_hz = scenario.clients.cpu_hz * np.linspace(0.5, 2, 8)
    gain = scenario.links.gain * np.linspace(0.5, 2, len(scenario.links))
    return [Round(scenario, online), Round(scenario, online, 1, cpu_hz=cpu_hz, gain=gain)]


FEASIBLE = np.array([0, 1, 2, -1, -1, 0, -1, -1])
# e1 gets c6 alone (too little data, unbalanced), e10 nobody, the third edge three for two places.
INFEASIBLE = np.array([-1, 2, 2, 2, -1, -1, 0, -1])


def true_records(scenario: Scenario, second: np.ndarray = FEASIBLE) -> list[DecisionRecord]:
    """The decisions of both rounds, through the format of their file."""
    records = [
        decision_of(round_, edge_of, lower_bound=0.25)
        for round_, edge_of in zip(rounds_of(scenario), (FEASIBLE, second), strict=True)
    ]
    lines = msgspec.json.encode([record.record() for record in records])
    return msgspec.json.decode(lines, type=list[DecisionRecord])


def lines_after(change: Callable[[DecisionRecord], None], second: np.ndarray) -> list[str]:
    """What is said when the second round's record is changed; the first stays true."""
    scenario = world()
    records = true_records(scenario, second)
    change(records[1])
    return check(scenario, records, rounds_of(scenario))


@pytest.mark.parametrize("second", [FEASIBLE, INFEASIBLE], ids=["feasible", "infeasible"])
def test_true_decisions(second):
    scenario = world()
    records = true_records(scenario, second)
    assert records[1].feasible == (second is FEASIBLE)
    assert check(scenario, records, rounds_of(scenario)) == []


def test_an_infeasible_record_says_all_that_is_broken():
    """What the table below relies on: each kind of violation is there."""
    assert [
        text.split(" > ")[0].split(" < ")[0]
        for text in true_records(world(), INFEASIBLE)[1].violations
    ] == [
        "e1: data 90",
        "e1: kld 0.693147",
        "e10: no clients",
        "es: x: clients 3",
    ]


def setter(name: str, value: object) -> Callable[[DecisionRecord], None]:
    return lambda record: setattr(record, name, value)


def scaled(name: str, factor: float) -> Callable[[DecisionRecord], None]:
    return lambda record: setattr(record, name, getattr(record, name) * factor)


def edge_setter(edge: int, name: str, value: object) -> Callable[[DecisionRecord], None]:
    return lambda record: setattr(record.edges[edge], name, value)


def assign(client: str, edge: str) -> Callable[[DecisionRecord], None]:
    return lambda record: record.assignment.__setitem__(client, edge)


def without_violation(part: str) -> Callable[[DecisionRecord], None]:
    def change(record: DecisionRecord) -> None:
        left = [text for text in record.violations if part not in text]
        assert len(left) == len(record.violations) - 1
        record.violations = left

    return change


def swap_edges(record: DecisionRecord) -> None:
    record.edges[0], record.edges[1] = record.edges[1], record.edges[0]


def with_violation(text: str) -> Callable[[DecisionRecord], None]:
    return lambda record: record.violations.append(text)


def corrected(old: str, new: str) -> Callable[[DecisionRecord], None]:
    def change(record: DecisionRecord) -> None:
        texts = [text.replace(old, new) for text in record.violations]
        assert texts != record.violations
        record.violations = texts

    return change


FALSEHOODS = {
    "objective": (scaled("objective", 1 + 1e-8), FEASIBLE, ["objective"]),
    "objective, not a number": (setter("objective", float("nan")), FEASIBLE, ["objective"]),
    "delay": (scaled("delay_s", 1 - 1e-8), FEASIBLE, ["delay_s"]),
    "energy": (scaled("energy_j", 1 + 1e-8), FEASIBLE, ["energy_j"]),
    "clients": (edge_setter(0, "clients", 3), FEASIBLE, ["edges[e1].clients = 3: recomputed 2"]),
    "data": (edge_setter(1, "data", 121), FEASIBLE, ["edges[e10].data = 121: recomputed 120"]),
    "kld": (edge_setter(1, "kld", 0.0069), FEASIBLE, ["edges[e10].kld = 0.0069"]),
    "kld off zero": (edge_setter(0, "kld", 1e-9), FEASIBLE, ["edges[e1].kld = 1e-09"]),
    "kld of an edge with clients": (
        edge_setter(1, "kld", None),
        FEASIBLE,
        ["edges[e10].kld = None"],
    ),
    "kld of an empty edge": (
        edge_setter(1, "kld", 0.0),
        INFEASIBLE,
        ["edges[e10].kld = 0.0: recomputed None"],
    ),
    "edges in another order": (swap_edges, FEASIBLE, ["edges: must be the scenario's"]),
    "an edge left out": (lambda r: r.edges.pop(), FEASIBLE, ["edges: must be the scenario's"]),
    "an edge unknown": (edge_setter(2, "id", "e2"), FEASIBLE, ["edges: must be the scenario's"]),
    "client unknown": (assign("c99", "e1"), FEASIBLE, ["assignment['c99']", "no such client"]),
    "edge unknown": (assign("c3", "e2"), FEASIBLE, ["assignment['c3']", "no such edge"]),
    "client offline": (assign("c7", "e1"), FEASIBLE, ["assignment['c7']", "not online"]),
    "no link": (assign("c6", "es: x"), FEASIBLE, ["assignment['c6']", "does not cover"]),
    "client moved": (assign("c0", "e10"), FEASIBLE, ["edges[e1].data = 180: recomputed 60"]),
    "client silently added": (assign("c3", "e10"), FEASIBLE, ["edges[e10].clients = 1"]),
    "client left out": (lambda r: r.assignment.pop("c0"), FEASIBLE, ["edges[e1].clients = 2"]),
    "claims to be infeasible": (setter("feasible", False), FEASIBLE, ["feasible = False"]),
    "claims to be feasible": (setter("feasible", True), INFEASIBLE, ["feasible = True"]),
    "violations though feasible": (
        setter("violations", ["e1: data 180 < data_min 100"]),
        FEASIBLE,
        ["violations = ", "must be empty"],
    ),
    "violations forgotten": (setter("violations", []), INFEASIBLE, ["violations = []"]),
    "data not mentioned": (without_violation("e1: data"), INFEASIBLE, ["'e1' and 'data'"]),
    "kld not mentioned": (without_violation("kld"), INFEASIBLE, ["'e1' and 'kld'"]),
    "capacity not mentioned": (
        without_violation("capacity"),
        INFEASIBLE,
        ["'es: x' and 'capacity'"],
    ),
    "no clients not mentioned": (
        without_violation("no clients"),
        INFEASIBLE,
        ["'e10' and 'no clients'"],
    ),
    "the wrong edge blamed": (corrected("e10: no", "e1: no"), INFEASIBLE, ["e1: no clients"]),
    "blamed for the wrong thing": (
        with_violation("es: x: data 230 < data_min 100"),
        INFEASIBLE,
        ["es: x: data 230", "is not so"],
    ),
    "an unknown edge blamed": (
        with_violation("e2: no clients"),
        INFEASIBLE,
        ["e2: no clients", "names no edge"],
    ),
    "a wrong figure in a violation": (corrected("data 90", "data 89"), INFEASIBLE, ["is not so"]),
    "a wrong limit in a violation": (
        corrected("data_min 100", "data_min 95"),
        INFEASIBLE,
        ["is not so"],
    ),
    "decision_ms negative": (setter("decision_ms", -0.1), FEASIBLE, ["decision_ms = -0.1"]),
    "decision_ms infinite": (setter("decision_ms", float("inf")), FEASIBLE, ["decision_ms = inf"]),
    "lower bound too high": (
        lambda r: setattr(r, "lower_bound", r.objective * (1 + 1e-8)),
        FEASIBLE,
        ["lower_bound"],
    ),
    "lower bound no number": (setter("lower_bound", float("nan")), INFEASIBLE, ["lower_bound"]),
    "round unknown": (setter("round", 2), FEASIBLE, ["round 2: there are only"]),
    "round negative": (setter("round", -1), FEASIBLE, ["round -1: there are only"]),
    "round twice": (setter("round", 0), FEASIBLE, ["round 0: decided more than once"]),
}


@pytest.mark.parametrize("name", FALSEHOODS)
def test_a_falsehood_in_a_decision_is_reported(name):
    change, second, parts = FALSEHOODS[name]
    lines = lines_after(change, second)
    assert any(all(part in line for part in parts) for line in lines), lines
    if not name.startswith("round"):
        assert all(line.startswith("round 1: ") for line in lines)


@pytest.mark.parametrize(
    "name",
    [
        "objective",
        "energy",
        "data",
        "kld",
        "claims to be infeasible",
        "data not mentioned",
        "an unknown edge blamed",
        "decision_ms negative",
        "no link",
    ],
)
def test_what_stays_true_is_not_reported(name):
    """One wrong figure is one line, whatever else of the record goes with it."""
    change, second, _ = FALSEHOODS[name]
    lines = lines_after(change, second)
    if name == "no link":  # it also makes the round infeasible and its empty violations untrue
        assert sorted(line.split()[2] for line in lines) == [
            "assignment['c6']",
            "feasible",
            "violations",
        ]
    else:
        assert len(lines) == 1


def test_a_round_left_out_is_reported():
    scenario = world()
    records = true_records(scenario)
    assert check(scenario, records[1:], rounds_of(scenario)) == ["round 0: not decided"]
    assert check(scenario, records[::-1], rounds_of(scenario)) == []


def test_a_rounds_own_cpu_and_gain_count():
    """The same assignment costs something else in a round that differs from the scenario."""
    scenario = world()
    rounds = rounds_of(scenario)
    records = true_records(scenario)
    assert records[0].energy_j != records[1].energy_j
    for field in ("cpu_hz", "gain"):
        lines = check(scenario, records, [rounds[0], replace(rounds[1], **{field: None})])
        assert any("round 1: energy_j" in line for line in lines)


def test_a_rounding_difference_is_no_falsehood():
    assert lines_after(scaled("objective", 1 + 1e-12), FEASIBLE) == []
    assert lines_after(edge_setter(0, "kld", 1e-15), FEASIBLE) == []


def test_a_bound_says_nothing_about_an_infeasible_answer():
    assert lines_after(setter("lower_bound", 1e9), INFEASIBLE) == []


def test_violations_in_other_words():
    """Another program may write its own sentences, as long as they name the edge and the word."""

    def change(record: DecisionRecord) -> None:
        record.violations[:3] = [
            "Too little data at e1, and its KLD is too large.",
            "(e10) has no clients",
        ]

    assert lines_after(change, INFEASIBLE) == []

    def blame(record: DecisionRecord) -> None:
        record.violations.append("too little data at e1 and e10")

    assert any("too little data" in line for line in lines_after(blame, INFEASIBLE))


def test_limits_have_a_tolerance_of_1e_9():
    """KLD_max exactly at, just within and just beyond the tolerance below the true divergence."""
    scenario = world()
    kld = true_records(scenario)[0].edges[1].kld
    for below, feasible in ((0.0, True), (0.9e-9, True), (1.1e-9, False)):
        tight = replace(scenario, limits=replace(scenario.limits, kld_max=kld - below))
        records = true_records(tight)
        assert [record.feasible for record in records] == [feasible, feasible]
        assert check(tight, records, rounds_of(tight)) == []


@given(SEEDS, st.booleans(), st.booleans(), st.data())
def test_random_decisions(seed, reference, keep_capacity, data):
    """A true record gives no line; with any one figure changed by at least 1e-7 it gives one."""
    rng = np.random.default_rng(seed)
    scenario = random_scenario(seed, clients=10, reference=reference)
    round_ = random_round(scenario, rng, fluctuating=bool(seed % 2))
    edge_of = random_assignment(
        scenario, rng, allowed=round_.online, keep_capacity=keep_capacity, share=rng.random()
    )
    record = decision_of(round_, edge_of).record()
    assert check(scenario, [record], [round_]) == []

    false = copy.deepcopy(record)
    change = data.draw(st.floats(1e-7, 10))
    kind = data.draw(
        st.sampled_from(["objective", "delay_s", "energy_j", "clients", "data", "kld"])
    )
    if kind in ("objective", "delay_s", "energy_j"):
        setattr(false, kind, getattr(false, kind) * (1 + change) + change)
    else:
        edge = data.draw(st.sampled_from(false.edges))
        if kind == "kld":
            edge.kld = change if edge.kld is None else edge.kld + change
        else:
            setattr(edge, kind, getattr(edge, kind) + data.draw(st.integers(1, 5)))
    lines = check(scenario, [false], [round_])
    assert len(lines) == 1
    assert kind in lines[0]


PLANNED = np.array([0, 1, 2, -1, 1, 0, -1, 2])


def true_plan(scenario: Scenario, edge_of: np.ndarray, measure: str) -> PlanRecord:
    risk = risk_measure(scenario, measure, seed=5, samples=200)
    plan = make_plan(risk, edge_of, method="m", seed=5, plan_ms=2.0)
    return msgspec.json.decode(msgspec.json.encode(plan.record()), type=PlanRecord)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("edge_of", [PLANNED, INFEASIBLE], ids=["planned", "infeasible"])
def test_true_plans(measure, edge_of):
    scenario = world()
    record = true_plan(scenario, edge_of, measure)
    assert check_plan(scenario, record, measure, samples=200) == []


def test_a_plan_is_checked_under_its_own_measure():
    scenario = world()
    record = true_plan(scenario, PLANNED, "sampled")
    for other in (
        check_plan(scenario, record, "exact"),
        check_plan(scenario, record, "markov"),
        check_plan(scenario, record, "sampled", samples=199),
        check_plan(scenario, record, "sampled", samples=200, seed=6),
    ):
        assert any("_risk" in line for line in other)
    with pytest.raises(StagewiseError, match="risk = 'guess'"):
        check_plan(scenario, record, "guess")


PLAN_FALSEHOODS = {
    "digest": (setter("scenario_sha256", "0" * 64), PLANNED, ["scenario_sha256"]),
    "objective": (scaled("objective", 1 + 1e-8), PLANNED, ["objective"]),
    "delay": (scaled("delay_s", 1 + 1e-8), PLANNED, ["delay_s"]),
    "energy": (scaled("energy_j", 1 + 1e-8), PLANNED, ["energy_j"]),
    "continuity": (scaled("continuity", 1 + 1e-8), PLANNED, ["continuity"]),
    "clients": (edge_setter(1, "clients", 1), PLANNED, ["edges[e10].clients = 1: recomputed 2"]),
    "kld risk": (edge_setter(1, "kld_risk", 0.23), PLANNED, ["edges[e10].kld_risk = 0.23"]),
    "data risk": (edge_setter(1, "data_risk", 0.5), PLANNED, ["edges[e10].data_risk = 0.5"]),
    "edges in another order": (swap_edges, PLANNED, ["edges: must be"]),
    "client unknown": (assign("c99", "e1"), PLANNED, ["assignment['c99']"]),
    "edge unknown": (assign("c3", "e2"), PLANNED, ["assignment['c3']"]),
    "no link": (assign("c6", "es: x"), PLANNED, ["assignment['c6']", "does not cover"]),
    "client moved": (assign("c0", "e10"), PLANNED, ["edges[e10].clients = 2: recomputed 3"]),
    "claims to be infeasible": (setter("feasible", False), PLANNED, ["feasible = False"]),
    "claims to be feasible": (setter("feasible", True), INFEASIBLE, ["feasible = True"]),
    "violations though feasible": (with_violation("e1: no clients"), PLANNED, ["violations = "]),
    "violations forgotten": (setter("violations", []), INFEASIBLE, ["violations = []"]),
    "data not mentioned": (without_violation("e1: data"), INFEASIBLE, ["'e1' and 'data'"]),
    "kld not mentioned": (without_violation("e1: kld"), INFEASIBLE, ["'e1' and 'kld'"]),
    "capacity not mentioned": (without_violation("capacity"), INFEASIBLE, ["'capacity'"]),
    "empty edge not mentioned": (without_violation("no clients"), INFEASIBLE, ["'no clients'"]),
    "a wrong figure in a violation": (corrected("risk 1 ", "risk 0.9 "), INFEASIBLE, ["is not so"]),
    "an edge blamed": (
        with_violation("es: x: kld risk 1 > kld_risk 0.3"),
        INFEASIBLE,
        ["es: x: kld"],
    ),
    "seed": (setter("seed", -1), PLANNED, ["seed = -1"]),
    "plan_ms": (setter("plan_ms", float("nan")), PLANNED, ["plan_ms"]),
}


@pytest.mark.parametrize("name", PLAN_FALSEHOODS)
def test_a_falsehood_in_a_plan_is_reported(name):
    change, edge_of, parts = PLAN_FALSEHOODS[name]
    scenario = world()
    record = true_plan(scenario, edge_of, "exact")
    assert record.feasible == (edge_of is PLANNED)
    change(record)
    lines = check_plan(scenario, record)
    assert any(all(part in line for part in parts) for line in lines), lines
    assert all(line.startswith("plan: ") for line in lines)


@given(SEEDS, st.sampled_from(MEASURES), st.booleans())
def test_random_plans(seed, measure, reference):
    rng = np.random.default_rng(seed)
    scenario = random_scenario(seed, clients=10, reference=reference)
    edge_of = random_assignment(scenario, rng, keep_capacity=bool(seed % 2), share=rng.random())
    record = true_plan(scenario, edge_of, measure)
    assert check_plan(scenario, record, measure, samples=200) == []
    edge = record.edges[seed % len(record.edges)]
    edge.kld_risk += 1e-7
    lines = check_plan(scenario, record, measure, samples=200)
    assert len(lines) == 1
    assert f"edges[{edge.id}].kld_risk" in lines[0]


def test_an_edge_with_too_many_uncertain_clients_is_sampled():
    """The plan's `exact` changes over at the same number of clients as the checker's."""
    assert EXACT_MEMBERS == risk_kernels.EXACT_MEMBERS
    for clients in (EXACT_MEMBERS, EXACT_MEMBERS + 1):
        scenario = plain_scenario(
            [[10 + i, 30 - i] for i in range(clients)],
            [[0]] * clients,
            capacity=[clients],
            limits=Limits(kld_max=0.1, data_min=250),
        )
        record = true_plan(scenario, np.zeros(clients, dtype=np.int64), "exact")
        assert check_plan(scenario, record, samples=200) == []
        fewer = check_plan(scenario, record, samples=100)
        assert bool(fewer) == (clients > EXACT_MEMBERS)


def test_the_checker_shares_no_code_with_what_it_checks():
    folder = Path(importlib.import_module("stagewise.checker").__file__).parent
    imported = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module)
    forbidden = (
        "search",
        "problem",
        "plan_a",
        "plan_b",
        "pool",
        "exact",
        "policies",
        "loop",
        "world.costs",
        "world.divergence",
    )
    assert not [
        name
        for name in imported
        if name.startswith(tuple(f"stagewise.{part}" for part in forbidden))
    ]
