"""One round's decision from a plan: the method, the mode and, where it fails, the remedy."""

import time
from collections.abc import Callable, Iterable
from importlib import import_module

from stagewise.decisions import Decision, make_decision
from stagewise.errors import StagewiseError, shown
from stagewise.plan_b.ccu import cluster_based_update
from stagewise.plan_b.pool import library_of, load_pool, pool
from stagewise.plan_b.remedies import Remedy, apply_remedy
from stagewise.plan_b.repair import repair
from stagewise.plan_b.service import ServiceRecord
from stagewise.plans import Plan
from stagewise.problem.statement import Mode
from stagewise.warm_up import warm_up
from stagewise.world.rounds import Round, round_of
from stagewise.world.scenario import BoolArray, IntArray

PlanBMethod = Callable[[Plan, Round, int, Mode], IntArray]

PLAN_B_METHODS: dict[str, PlanBMethod] = {
    "ccu": cluster_based_update,
    "repair": repair,
    "pool": pool,
}
_FOLLOWS = {"paper": "ccu", "pool": "pool"}
MODES = ("strict", "flexible")


def prepare(method: str, plan: Plan) -> None:
    """Load, compile and build what `method` needs, so that no decision's time includes it."""
    warm_up()
    if method == "pool":
        load_pool()
        library_of(plan)
    if method == "ccu":
        import_module("sklearn.cluster")


def decide_assignment(
    plan: Plan, round_: Round, index: int, method: str, mode: Mode, service: ServiceRecord | None
) -> IntArray:
    """The edge of each client in the round by `method`, which is known and prepared."""
    if service is None or service.weight == 0:
        return PLAN_B_METHODS[method](plan, round_, index, mode)
    if method != "pool":
        raise StagewiseError(
            f"diversity = {service.weight:g}: needs method 'pool', not {shown(method)}"
        )
    return pool(plan, round_, index, mode, service.surcharge())


def decide(
    plan: Plan,
    online: Round | BoolArray | Iterable[str],
    *,
    index: int = 0,
    method: str | None = None,
    mode: Mode = "strict",
    remedy: Remedy | None = None,
    service: ServiceRecord | None = None,
) -> Decision:
    """The decision of round `index` in which the given clients are online.

    `strict` keeps (12d): every online long-term client trains at its edge. `flexible` may leave a
    surplus one out. `remedy` says what to do where the round cannot be made feasible. `service` tells
    who has served in the rounds before, and is brought up to date.
    """
    method = _FOLLOWS.get(plan.method, "repair") if method is None else method
    if method not in PLAN_B_METHODS:
        raise StagewiseError(
            f"method = {shown(method)}: must be one of {', '.join(PLAN_B_METHODS)}"
        )
    if mode not in MODES:
        raise StagewiseError(f"mode = {shown(mode)}: must be one of {', '.join(MODES)}")
    prepare(method, plan)
    round_ = round_of(plan.scenario, online)
    began = time.perf_counter()
    edge_of = decide_assignment(plan, round_, index, method, mode, service)
    if remedy is not None:
        edge_of = apply_remedy(remedy, plan, round_, index, mode, edge_of)
    decision_ms = 1000 * (time.perf_counter() - began)
    if service is not None:
        service.remember(edge_of)
    return make_decision(round_, edge_of, index=index, method=method, decision_ms=decision_ms)
