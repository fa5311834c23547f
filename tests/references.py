"""Scenarios with round numbers, random assignments, and plain references for what is computed."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from stagewise.checker.equations import Serving, figures
from stagewise.decisions import Answer, Decision
from stagewise.problem.evaluation import evaluate, round_violations
from stagewise.problem.statement import Problem, edge_risks, plan_violations
from stagewise.world.rounds import Round
from stagewise.world.scenario import Clients, Edges, Limits, Links, Scenario, Weights

NOBODY = -1


def plain_scenario(
    label_counts: Sequence[Sequence[int]],
    links: Sequence[Sequence[int]],
    *,
    online: Sequence[float] | None = None,
    capacity: Sequence[int] = (9, 9),
    edge_ids: Sequence[str] | None = None,
    limits: Limits | None = None,
    weights: Weights | None = None,
    reference: Sequence[float] | None = None,
) -> Scenario:
    """Client i holds `label_counts[i]` and is covered by the edges `links[i]`; all else is simple.

    Every client computes at 1 GHz with 1e6 cycles a sample, a batch fraction of 0.1 and a
    capacitance of 1e-28, and sends at 0.5 W. An edge's bandwidth of 1 MHz, noise of 1e-9 W/Hz and
    a gain of 0.014 make the signal to noise ratio 7 and the rate 3 Mbit/s: 0.2 s for a model.
    """
    count, edges = len(label_counts), len(capacity)
    return Scenario(
        clients=Clients(
            ids=tuple(f"c{i}" for i in range(count)),
            label_counts=np.array(label_counts, dtype=np.int64),
            cpu_hz=np.full(count, 1e9),
            cycles_per_sample=np.full(count, 1e6),
            capacitance=np.full(count, 1e-28),
            batch_fraction=np.full(count, 0.1),
            tx_power_w=np.full(count, 0.5),
            online_probability=np.array([0.5] * count if online is None else online, dtype=float),
        ),
        edges=Edges(
            ids=tuple(f"es{j}" for j in range(edges)) if edge_ids is None else tuple(edge_ids),
            capacity=np.array(capacity, dtype=np.int64),
            bandwidth_hz=np.full(edges, 1e6),
            uplink_delay_s=np.array([0.1 * (j + 1) for j in range(edges)]),
            uplink_energy_j=np.array([0.01 * (j + 1) for j in range(edges)]),
        ),
        links=Links(
            start=np.cumsum([0, *(len(row) for row in links)]),
            edge=np.array([edge for row in links for edge in row], dtype=np.int64),
            gain=np.full(sum(len(row) for row in links), 0.014),
        ),
        local_steps=5,
        edge_rounds=3,
        model_bits=600_000,
        noise_w_per_hz=1e-9,
        weights=weights or Weights(),
        limits=limits or Limits(kld_max=0.1, data_min=100),
        reference=None if reference is None else np.array(reference),
    )


def random_round(scenario: Scenario, rng: np.random.Generator, fluctuating: bool = True) -> Round:
    """Most clients online; where `fluctuating`, CPUs and gains differ from the scenario's."""
    if not fluctuating:
        return Round(scenario, rng.random(len(scenario.clients)) < 0.8)
    return Round(
        scenario,
        rng.random(len(scenario.clients)) < 0.8,
        cpu_hz=scenario.clients.cpu_hz * rng.uniform(0.5, 1.5, len(scenario.clients)),
        gain=scenario.links.gain * rng.uniform(0.5, 1.5, len(scenario.links)),
    )


def edges_of(scenario: Scenario, client: int) -> list[int]:
    """The edges that cover a client."""
    start = scenario.links.start
    return scenario.links.edge[start[client] : start[client + 1]].tolist()


def random_assignment(
    scenario: Scenario,
    rng: np.random.Generator,
    *,
    allowed: np.ndarray | None = None,
    share: float = 0.8,
    keep_capacity: bool = True,
) -> np.ndarray:
    """A random edge for about `share` of the allowed clients that have one with room."""
    assignment = np.full(len(scenario.clients), NOBODY, dtype=np.int64)
    room = scenario.edges.capacity.copy()
    for client in rng.permutation(len(scenario.clients)).tolist():
        if rng.random() > share or not (allowed is None or allowed[client]):
            continue
        choice = [j for j in edges_of(scenario, client) if room[j] > 0 or not keep_capacity]
        if choice:
            assignment[client] = rng.choice(choice)
            room[assignment[client]] -= 1
    return assignment


def decision_of(
    round_: Round, edge_of: Sequence[int], *, method: str = "m", lower_bound: float | None = None
) -> Decision:
    """A decision with its true figures, also of an answer that breaks a policy's contract."""
    answer = Answer(np.asarray(edge_of), lower_bound)
    evaluation = evaluate(round_, answer.edge_of)
    violations = tuple(round_violations(round_.scenario, evaluation))
    return Decision(round_, method, answer, evaluation, violations, decision_ms=0.5)


def serving_of(scenario: Scenario, assignment: Sequence[int]) -> list[Serving]:
    """The assignment as the checker sees it."""
    start = scenario.links.start
    return [
        Serving(client, edge, int(start[client]) + edges_of(scenario, client).index(edge))
        for client, edge in enumerate(np.asarray(assignment).tolist())
        if edge != NOBODY
    ]


def members_of(scenario: Scenario, assignment: Sequence[int]) -> list[list[int]]:
    """The clients of every edge."""
    members: list[list[int]] = [[] for _ in scenario.edges.ids]
    for client, edge in enumerate(np.asarray(assignment).tolist()):
        if edge != NOBODY:
            members[edge].append(client)
    return members


def largest_kld(scenario: Scenario) -> float:
    """What an edge without clients counts for: more than any KLD and than any other violation."""
    return 2 + max(-math.log(q) for q in scenario.target)


def edge_violations(
    problem: Problem, assignment: Sequence[int], keep_kld: bool = True
) -> list[float]:
    """By how much every edge misses its limits, as the search measures it."""
    scenario, limits = problem.scenario, problem.scenario.limits
    found = []
    for members in members_of(scenario, assignment):
        missing = 0.0
        if not members:
            missing = largest_kld(scenario)
        elif problem.risk is not None:
            kld_risk, data_risk = problem.risk.of(np.array(members))
            if kld_risk > limits.kld_risk + 1e-9:
                missing += kld_risk - limits.kld_risk
            if data_risk > limits.data_risk + 1e-9:
                missing += data_risk - limits.data_risk
        else:
            sums = scenario.clients.label_counts[members].sum(axis=0).tolist()
            if sum(sums) < limits.data_min:
                missing += (limits.data_min - sum(sums)) / limits.data_min
            kld = plain_kld(sums, scenario.target.tolist())
            if keep_kld and kld > limits.kld_max + 1e-9:
                missing += kld - limits.kld_max
        found.append(missing)
    return found


def plain_kld(label_sums: Sequence[int], target: Sequence[float]) -> float:
    """Eqs. 7, 8; infinite without data."""
    total = sum(label_sums)
    if total == 0:
        return math.inf
    pairs = zip(label_sums, target, strict=True)
    return sum(y / total * math.log(y / total / q) for y, q in pairs if y > 0)


def plain_value(problem: Problem, assignment: Sequence[int]) -> float:
    """The objective of P0 or, with a risk measure, of P1."""
    scenario = problem.scenario
    serving = serving_of(scenario, assignment)
    cost = figures(scenario, serving).cost
    if problem.risk is None:
        return cost
    product = math.prod(scenario.clients.online_probability[one.client] for one in serving)
    constancy = product ** (1 / len(serving)) if serving else 0.0  # Eq. 10
    return cost - scenario.weights.continuity * constancy


def complete_associations(scenario: Scenario, selected: Sequence[int]) -> Iterator[np.ndarray]:
    """Every way to give each of `selected` one of its edges, none above its capacity."""
    for choice in itertools.product(*(edges_of(scenario, client) for client in selected)):
        if all(choice.count(j) <= scenario.edges.capacity[j] for j in set(choice)):
            assignment = np.full(len(scenario.clients), NOBODY, dtype=np.int64)
            assignment[list(selected)] = choice
            yield assignment


def violations(problem: Problem, edge_of: np.ndarray) -> list[str]:
    """Every constraint that `edge_of` breaks, one sentence each."""
    scenario = problem.scenario
    serving = np.flatnonzero(edge_of != NOBODY)
    link = scenario.links.find(serving, edge_of[serving])
    broken = [
        f"{scenario.clients.ids[client]}: serves but may not"
        for client in serving[~problem.round.usable[link]]
    ]
    if problem.pinned is not None:
        broken += [
            f"{scenario.clients.ids[client]}: must serve {scenario.edges.ids[problem.pinned[client]]}"
            for client in np.flatnonzero((problem.pinned != NOBODY) & (edge_of != problem.pinned))
        ]
    evaluation = problem.evaluate(edge_of)
    if problem.risk is None:
        return broken + round_violations(scenario, evaluation)
    return broken + plan_violations(
        scenario, evaluation.clients, *edge_risks(problem.risk, edge_of)
    )
