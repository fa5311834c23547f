"""Policies: whatever turns a scenario and who is online into a decision, found by name.

A policy of one's own is any object with a `decide` method, made by a factory that a package declares
under the entry point group `stagewise.policies`. `stagewise.testing` tells whether it keeps the
contract.
"""

import time
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple, Protocol

import numpy as np

from stagewise.decisions import Decision, make_decision
from stagewise.errors import StagewiseError, one_line, shown
from stagewise.warm_up import warm_up
from stagewise.world.checks import finite, seed_number
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray, Scenario

ENTRY_POINTS = "stagewise.policies"


class WithBound(NamedTuple):
    """An answer with a certificate."""

    edge_of: IntArray
    lower_bound: float | None
    """No assignment within the limits costs less; None where nothing is proven."""


class Policy(Protocol):
    """Decides round after round."""

    def decide(self, round_: Round, index: int) -> "IntArray | WithBound":
        """The edge of each client in round `index`, or -1; shape (clients,), whole numbers.

        Only online clients may serve, only at an edge they have a link to, and no edge may have more
        clients than its capacity. A policy made anew with the same seed and given the same rounds
        must give the same answers. A policy that proves a lower bound returns it `WithBound`. One that
        looks at who served before also has `remember(edge_of)`, called after each round.
        """
        ...


class PolicyFactory(Protocol):
    """Makes a policy for one scenario."""

    def __call__(self, scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
        """`seconds`, where given, is the time the policy may take for one decision."""
        ...


_BUILT_IN = {
    "stagewise-paper": "stagewise.methods.stagewise:stagewise_paper",
    "stagewise-strict": "stagewise.methods.stagewise:stagewise_strict",
    "stagewise-flexible": "stagewise.methods.stagewise:stagewise_flexible",
    "pool-strict": "stagewise.methods.stagewise:pool_strict",
    "pool-flexible": "stagewise.methods.stagewise:pool_flexible",
    "orig-prob-solver": "stagewise.methods.paper_benchmarks:orig_prob_solver",
    "kld-minimization": "stagewise.methods.paper_benchmarks:kld_minimization",
    "client-sel-only": "stagewise.methods.paper_benchmarks:client_sel_only",
    "c2e-assoc-only": "stagewise.methods.paper_benchmarks:c2e_assoc_only",
    "c2e-greedy-assoc": "stagewise.methods.paper_benchmarks:c2e_greedy_assoc",
    "fedcs": "stagewise.methods.paper_benchmarks:fedcs",
    "local-search": "stagewise.methods.local_search:local_search_policy",
    "exact": "stagewise.methods.exact:exact_policy",
}


def policy_names() -> list[str]:
    """The names of all policies: our own first, then those of installed packages."""
    return [*_BUILT_IN, *sorted({point.name for point in _installed()} - set(_BUILT_IN))]


def policy_factory(name: str) -> PolicyFactory:
    """The factory of the policy called `name`."""
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        factory: PolicyFactory = getattr(import_module(module), attribute)
        return factory
    for point in _installed():
        if point.name == name:
            try:
                factory = point.load()
            except Exception as error:
                reason = one_line(f"{type(error).__name__}: {error}")
                raise StagewiseError(
                    f"method {shown(name)}: its package cannot be loaded: {reason}"
                ) from error
            return factory
    raise StagewiseError(f"method = {shown(name)}: must be one of {', '.join(policy_names())}")


def _installed() -> Iterable[Any]:
    return entry_points(group=ENTRY_POINTS)


def solve(
    scenario: Scenario,
    rounds: Iterable[Round],
    *,
    method: str = "local-search",
    seed: int = 0,
    seconds: float | None = None,
    progress: Callable[[Decision], None] | None = None,
) -> list[Decision]:
    """P0 solved anew in each of `rounds` by the policy called `method`."""
    seed_number(seed)
    if seconds is not None:
        finite("seconds", seconds, 0, open_below=True)
    policy = policy_factory(method)(scenario, seed=seed, seconds=seconds)
    warm_up()
    decisions = []
    for index, round_ in enumerate(rounds):
        decision = decide_with(policy, round_, index, method)
        decisions.append(decision)
        if progress is not None:
            progress(decision)
    return decisions


def decide_with(policy: Policy, round_: Round, index: int, method: str) -> Decision:
    """The decision of `policy` in one round; an answer that breaks the contract is an error."""
    began = time.perf_counter()
    answer = policy.decide(round_, index)
    decision_ms = 1000 * (time.perf_counter() - began)
    lower_bound = None
    if isinstance(answer, WithBound):
        answer, lower_bound = answer
    broken = contract_violation(round_, answer)
    if broken is not None:
        raise StagewiseError(f"method {shown(method)}, round {index}: {broken}")
    remember = getattr(policy, "remember", None)
    if remember is not None:
        remember(answer)
    return make_decision(
        round_,
        np.array(answer, dtype=np.int64),
        index=index,
        method=method,
        decision_ms=decision_ms,
        lower_bound=lower_bound,
    )


def contract_violation(round_: Round, answer: Any) -> str | None:
    """What is wrong with a policy's answer, or None: the rules that hold whatever the method."""
    scenario = round_.scenario
    clients, edges = scenario.clients.ids, scenario.edges.ids
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "iu":
        return "the answer must be a NumPy array of whole numbers"
    if answer.shape != (len(clients),):
        return f"the answer must have shape ({len(clients)},), not {answer.shape}"
    unknown = (answer < UNASSIGNED) | (answer >= len(edges))
    if unknown.any():
        first = int(np.argmax(unknown))
        return f"client {clients[first]!r} is given edge {answer[first]}, which does not exist"
    answer = answer.astype(np.int64)
    offline = (answer != UNASSIGNED) & ~round_.online
    if offline.any():
        return f"client {clients[int(np.argmax(offline))]!r} serves but is offline"
    serving = np.flatnonzero(answer != UNASSIGNED)
    missing = scenario.links.find(serving, answer[serving]) < 0
    if missing.any():
        first = int(serving[int(np.argmax(missing))])
        return f"client {clients[first]!r} has no link to edge {edges[answer[first]]!r}"
    count = np.bincount(answer[serving], minlength=len(edges))
    over = count > scenario.edges.capacity
    if over.any():
        first = int(np.argmax(over))
        capacity = scenario.edges.capacity[first]
        return f"edge {edges[first]!r} has {count[first]} clients, above its capacity {capacity}"
    return None
