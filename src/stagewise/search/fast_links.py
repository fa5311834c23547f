"""Faster rounds: the same search among fast links alone, where delay is most of the cost."""

import time
from collections.abc import Callable

import numpy as np

from stagewise.problem.statement import Problem
from stagewise.randomness import integer_seed
from stagewise.search.instance import Instance, build_instance
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.world.scenario import BoolArray, FloatArray

_MOST = 0.5  # of the cost: where delay is less, clusters at prices are better than fast links
_WORTH = 1e-3  # of the cost: shorter delays that save less are not looked for
# Two or three milliseconds with six edges.
_EFFORT = Effort(runs=1, moves_per_edge=3_000, fix_runs=0)
_TOLERANCE = 1e-12


def link_delays(instance: Instance) -> FloatArray:
    """What the delay of a round can be: that of a link and its edge's uplink."""
    return instance.link_delay + instance.uplink_delay[instance.link_edge]


def fast_links(problem: Problem, delay_limit: float) -> BoolArray:
    """The links of the scenario over which a round may take no longer than that."""
    scenario = problem.scenario
    delay = scenario.edge_rounds * problem.round.costs.delay_s
    return delay + scenario.edges.uplink_delay_s[scenario.links.edge] <= delay_limit


def shortened(
    problem: Problem,
    instance: Instance,
    found: Found,
    seed: int,
    prepare: Callable[[Instance], Instance],
    seconds: float | None = None,
) -> Found:
    """`found`, or something better with a shorter delay, where delay is most of the cost.

    The delays in question are halved again and again, but not after `seconds`. `instance` is the
    compiled form of `problem`, after `prepare`; nobody is pinned.
    """
    began = time.perf_counter()
    weight, delays = instance.delay_weight, link_delays(instance)

    def delay_of(one: Found) -> float:
        used = one.assignment[instance.link_client] == instance.link_edge
        return float(delays[used].max(initial=0.0))

    if found.violation > 0 or weight * delay_of(found) < _MOST * found.value:
        return found
    possible, present = np.unique(delays), delay_of(found)
    failed = _least_delay(instance, delays) * (1 - _TOLERANCE)
    while weight * (present - failed) > _WORTH * found.value:
        between = possible[(possible > failed) & (possible < present * (1 - _TOLERANCE))]
        if len(between) == 0 or (seconds is not None and time.perf_counter() - began > seconds):
            break
        limit = float(between[len(between) // 2])
        faster = prepare(build_instance(problem, usable=fast_links(problem, limit)))
        again = local_search(
            faster, seed=integer_seed(seed, "fast links", len(between)), effort=_EFFORT
        )
        if again.better_than(found):
            found, present = again, delay_of(again)
        else:
            failed = limit
    return found


def _least_delay(instance: Instance, delays: FloatArray) -> float:
    """What no round can be faster than: every edge of it has somebody."""
    fastest = np.full(len(instance.capacity), np.inf)
    np.minimum.at(fastest, instance.link_edge, delays)
    return float(fastest[instance.in_round & np.isfinite(fastest)].max(initial=0.0))
