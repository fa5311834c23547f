"""The value to be minimised: of the present assignment, and after a move."""

import numpy as np

from stagewise.compiled import NONE, inlined
from stagewise.search.instance import COST, MEAN_KLD, PLAN_COST
from stagewise.search.state import (
    ENERGY,
    KLD,
    LOG_PROBABILITY,
    NEVER,
    SERVING,
    edge_after,
    kld_after,
)


@inlined
def slowest_but(state, j, k):
    """The delay of the slowest edge other than j and k."""
    for rank in range(state.slowest.shape[0]):
        edge = state.slowest[rank]
        if edge != NONE and edge != j and edge != k:
            return state.delay[edge]
    return 0.0


@inlined
def objective(instance, delay, energy, log_probability, serving, kld, never):
    """The value to be minimised, from a round's sums; energy spent outside the instance left out."""
    outside = instance.outside
    delay = max(delay, outside.delay)
    cost = instance.delay_weight * delay + instance.energy_weight * energy
    if instance.objective == COST:
        return cost
    if instance.objective == PLAN_COST:
        serving += outside.serving
        if serving <= 0 or never + outside.never > 0:
            return cost
        mean = (log_probability + outside.log_probability) / serving
        return cost - instance.continuity_weight * np.exp(mean)
    if instance.objective == MEAN_KLD:
        return kld / max(1, instance.edges_in_round)
    return cost - instance.count_weight * serving  # MOST_CLIENTS: cost only breaks ties


@inlined
def value(instance, state):
    """The value of the present assignment."""
    return objective(
        instance,
        slowest_but(state, NONE, NONE),
        state.totals[ENERGY],
        state.totals[LOG_PROBABILITY],
        state.totals[SERVING],
        state.totals[KLD],
        state.totals[NEVER],
    )


@inlined
def value_after(instance, state, j, leaving, link, k, leaving_k, link_k):
    """The value after a change at edge j and, unless k is -1, another at edge k."""
    delay, energy = edge_after(instance, state, j, leaving, link)
    slowest = max(delay, slowest_but(state, j, k))
    total = state.totals[ENERGY] + energy - state.energy[j]
    kld = state.totals[KLD]
    serving = state.totals[SERVING]
    log_probability = state.totals[LOG_PROBABILITY]
    never = state.totals[NEVER]
    if instance.objective == MEAN_KLD:
        kld += kld_after(instance, state, j, leaving, link)[1] - state.kld[j]
    if k != NONE:
        delay, energy = edge_after(instance, state, k, leaving_k, link_k)
        slowest = max(delay, slowest)
        total += energy - state.energy[k]
        if instance.objective == MEAN_KLD:
            kld += kld_after(instance, state, k, leaving_k, link_k)[1] - state.kld[k]
    else:  # with two edges the same clients serve as before
        if leaving != NONE:
            serving -= 1.0
            if instance.probability[leaving] <= 0:
                never -= 1.0
            log_probability -= instance.log_probability[leaving]
        if link != NONE:
            serving += 1.0
            if instance.probability[instance.link_client[link]] <= 0:
                never += 1.0
            log_probability += instance.log_probability[instance.link_client[link]]
    return objective(instance, slowest, total, log_probability, serving, kld, never)
