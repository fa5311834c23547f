"""A plan compared with P1's equations: Eqs. 4, 5, 10 and the constraints (11a)-(11g)."""

from typing import TYPE_CHECKING

from stagewise.checker.claims import Broken, Claims, as_record, broken_limits
from stagewise.checker.equations import LIMIT_TOLERANCE, Figures, continuity, figures, who_serves
from stagewise.checker.risks import (
    EXACT_MEMBERS,
    exact_risk,
    markov_risk,
    sampled_risk,
    sampled_rounds,
    uncertain,
)
from stagewise.errors import StagewiseError, shown

if TYPE_CHECKING:
    from stagewise.plans import Plan, PlanRecord
    from stagewise.world.scenario import Scenario

_RISK_SLACK = 1e-12  # a risk is a sum of up to 2^14 probabilities, and may be 0


def check_plan(
    scenario: "Scenario",
    plan: "Plan | PlanRecord",
    risk: str = "exact",
    samples: int = 1024,
    seed: int | None = None,
) -> list[str]:
    """A line for each thing that is not true of a plan, with the claimed and the true value.

    Parameters
    ----------
    scenario : Scenario
        The system it was made for.
    plan : Plan or PlanRecord
        The plan, or what its file says.
    risk : {"exact", "sampled", "markov"}
        The measure of risk it was made under.
    samples, seed : int, optional
        Which random rounds `sampled` draws, and `exact` for an edge with too many uncertain
        clients to enumerate; the seed is the plan's by default.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> stagewise.check_plan(scenario, stagewise.plan(scenario, method="local-search"))
    []
    """
    record: PlanRecord = as_record(plan)
    if risk not in ("exact", "sampled", "markov"):
        raise StagewiseError(f"risk = {shown(risk)}: must be one of exact, sampled, markov")
    claims = Claims("plan")
    claims.exactly("scenario_sha256", record.scenario_sha256, scenario.sha256)
    serving, impossible = who_serves(scenario, record.assignment)
    for line in impossible:
        claims.untrue(line)
    true = figures(scenario, serving)
    constancy = continuity(
        [float(scenario.clients.online_probability[one.client]) for one in serving]
    )
    reward = scenario.weights.continuity * constancy
    claims.closely("objective", record.objective, true.cost - reward, 1e-12 * (true.cost + reward))
    claims.closely("delay_s", record.delay_s, true.delay_s)
    claims.closely("energy_j", record.energy_j, true.energy_j)
    claims.closely("continuity", record.continuity, constancy)
    if record.seed < 0:
        claims.untrue(f"seed = {record.seed}: must be at least 0")
    drawn_from = max(0, record.seed) if seed is None else seed
    risks = _risks(scenario, true, risk, samples, drawn_from)
    for claimed, name, number in claims.edges(record.edges, scenario.edges.index):
        claims.exactly(f"{name}.clients", claimed.clients, len(true.edges[number].members))
        claims.closely(f"{name}.kld_risk", claimed.kld_risk, risks[number][0], _RISK_SLACK)
        claims.closely(f"{name}.data_risk", claimed.data_risk, risks[number][1], _RISK_SLACK)
    broken = _broken(scenario, true, risks)
    claims.feasibility(record, broken, not impossible, scenario.edges.index)
    claims.duration("plan_ms", record.plan_ms)
    return claims.lines


def _risks(
    scenario: "Scenario", true: Figures, risk: str, samples: int, seed: int
) -> list[tuple[float, float]]:
    """(KLD risk, data risk) of every edge; an edge without clients breaks both limits for sure."""

    def by_sampling(members: list[int]) -> bool:
        many = risk == "exact" and len(uncertain(scenario, members)) > EXACT_MEMBERS
        return risk == "sampled" or many

    drawn = [i for edge in true.edges if by_sampling(edge.members) for i in edge.members]
    draws = sampled_rounds(scenario, drawn, seed, samples)
    found = []
    for edge in true.edges:
        if not edge.members:
            found.append((1.0, 1.0))
        elif risk == "markov":
            found.append(markov_risk(scenario, edge.members))
        elif by_sampling(edge.members):
            found.append(sampled_risk(scenario, edge.members, draws))
        else:
            found.append(exact_risk(scenario, edge.members))
    return found


def _broken(
    scenario: "Scenario", true: Figures, risks: list[tuple[float, float]]
) -> dict[int, dict[str, Broken]]:
    limits, capacity = scenario.limits, scenario.edges.capacity.tolist()
    kld_max, data_max = limits.kld_risk + LIMIT_TOLERANCE, limits.data_risk + LIMIT_TOLERANCE
    return {
        number: broken_limits(
            len(edge.members),
            capacity[number],
            ("kld", kld_risk > kld_max, kld_risk, limits.kld_risk),  # (11a), (11f)
            ("data", data_risk > data_max, data_risk, limits.data_risk),  # (11b), (11g)
        )
        for number, (edge, (kld_risk, data_risk)) in enumerate(zip(true.edges, risks, strict=True))
    }
