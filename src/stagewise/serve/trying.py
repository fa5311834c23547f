"""What if: a round decided again with other limits, weights, estimates or outages; nothing is kept."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import msgspec

from stagewise.decisions import Decision, DecisionRecord
from stagewise.loop import run_rounds
from stagewise.plan_a.planners import plan as make_plan
from stagewise.plans import Plan, PlanRecord
from stagewise.policies.plan_policy import PlanPolicy
from stagewise.policies.policy import Policy
from stagewise.problem.statement import Mode
from stagewise.serve.bounds import Optimum, optimum
from stagewise.world.parts import Limits
from stagewise.world.records import Count
from stagewise.world.rounds import Round, client_number
from stagewise.world.rounds_file import line_of_round, round_from_line
from stagewise.world.scenario import Scenario

PLAN_S, OPTIMUM_S = 0.3, 0.6
"""A person waits for it."""


class LimitChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    kld_max: float | None = None
    data_min: float | None = None
    kld_risk: float | None = None
    data_risk: float | None = None


class WeightChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    delay: float | None = None
    energy: float | None = None
    continuity: float | None = None


class TryRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is to be different."""

    round: Count | None = None
    """The round to start from; None is the newest one, or one with everybody online before the first."""
    online: list[str] | None = None
    down: list[str] | None = None
    """Edges that are not there."""
    limits: LimitChanges = LimitChanges()
    weights: WeightChanges = WeightChanges()
    online_probability: dict[str, float] = {}


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    decision: DecisionRecord
    optimum: Optimum
    plan: PlanRecord | None
    """The plan that the decision followed, and its risks."""
    new_plan: bool


def changed_scenario(scenario: Scenario, request: TryRequest) -> Scenario:
    """The scenario with what is to be different in it; the same one where nothing is."""
    changes: dict[str, Any] = {}
    if limits := _given(request.limits):
        changes["limits"] = _limits(scenario.limits, limits)
    if weights := _given(request.weights):
        changes["weights"] = replace(scenario.weights, **weights)
    if request.online_probability:
        likely = scenario.clients.online_probability.copy()
        for name, value in request.online_probability.items():
            likely[client_number(scenario, name, "online_probability")] = value
        clients = replace(scenario.clients, online_probability=likely, history=None)
        changes["clients"] = clients
    return replace(scenario, **changes, file_sha256=None) if changes else scenario


def try_round(given: Round, plan: Plan | None, mode: Mode, request: TryRequest) -> Tried:
    """Decide `given` with the changes of a request, and find the optimum beside it.

    The decision follows `plan` where the scenario is the same, else a new one by local search.
    """
    scenario = changed_scenario(given.scenario, request)
    line = msgspec.structs.replace(line_of_round(given))
    if request.online is not None:
        line.online = request.online
    if request.down is not None:
        line.down = request.down
    round_ = round_from_line(scenario, line, given.index)
    with ThreadPoolExecutor(1) as executor:
        best = executor.submit(optimum, round_, OPTIMUM_S)
        followed = plan
        if plan is None or scenario is not given.scenario:
            followed = make_plan(scenario, method="local-search", seconds=PLAN_S)
        assert followed is not None
        decision = _decided(PlanPolicy(followed, mode=mode), round_)
        return Tried(
            decision=decision.record(),
            optimum=best.result(),
            plan=followed.record(),
            new_plan=followed is not plan,
        )


def _decided(policy: Policy, round_: Round) -> Decision:
    return next(run_rounds(policy, [round_])).decision


def _given(changes: msgspec.Struct) -> dict[str, float]:
    fields = msgspec.structs.asdict(changes)
    return {name: value for name, value in fields.items() if value is not None}


def _limits(limits: Limits, changes: Mapping[str, float]) -> Limits:
    """Data are whole where they were."""
    changed = dict(changes)
    if "data_min" in changed and float(changed["data_min"]).is_integer():
        changed["data_min"] = int(changed["data_min"])
    return replace(limits, **changed)
