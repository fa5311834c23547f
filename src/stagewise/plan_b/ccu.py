"""Alg. 4, CCU: replace absent long-term clients by similar ones, found by clustering."""

from dataclasses import replace

import numpy as np

from stagewise.plan_a.client_set import improve_client_set
from stagewise.plan_b.similarity import NOISE, EdgeClusters, edge_clusters
from stagewise.plan_b.surplus import leave_out_surplus
from stagewise.plans import Plan
from stagewise.problem.statement import Mode, Problem, p2
from stagewise.randomness import generator
from stagewise.search.instance import Instance, build_instance
from stagewise.search.state import NOBODY, State, change_edge, find_link, new_state, start_from
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray

# Back-tracking in the fallback, where Algs. 2 and 3 run inside a round.
_FALLBACK_NODES = 20


def cluster_based_update(plan: Plan, round_: Round, index: int, mode: Mode) -> IntArray:
    """The round's assignment by Alg. 4; `flexible` leaves surplus long-term clients out at the end."""
    problem = p2(round_, plan.edge_of, "strict")
    instance = build_instance(problem)
    state = new_state(instance)
    start_from(instance, state, np.where(round_.online, plan.edge_of, UNASSIGNED))  # lines 3-4
    failed = [
        edge
        for edge in np.flatnonzero(state.violation > 0).tolist()  # line 5
        if not _replace_absent(instance, state, plan, round_, edge)  # line 6
    ]
    assignment: IntArray = state.edge_of.copy()
    if failed:  # lines 7-8
        assignment = _fall_back(problem, plan, round_, index, assignment, failed)
    if mode == "flexible":
        assignment = leave_out_surplus(p2(round_, plan.edge_of, "flexible"), assignment)
    return assignment


def _replace_absent(instance: Instance, state: State, plan: Plan, round_: Round, edge: int) -> bool:
    """Line 6 at one edge: a stand-in from the same cluster for each absent client, most alike first.

    True as soon as (12a) and (12b) hold; false where an absent client is noise or has no stand-in
    left and they do not hold.
    """
    clusters = edge_clusters(plan.scenario, round_.costs, edge)
    absent = np.flatnonzero((plan.edge_of == edge) & ~round_.online)
    for client in absent.tolist():
        for stand_in in _alike(clusters, client):
            link = find_link(instance, stand_in, edge)
            if link == NOBODY or state.edge_of[stand_in] != UNASSIGNED:
                continue
            if state.count[edge] >= plan.scenario.edges.capacity[edge]:
                return False
            change_edge(instance, state, edge, NOBODY, link)
            break
        if state.violation[edge] == 0:
            return True
    return False


def _alike(clusters: EdgeClusters, client: int) -> list[int]:
    """The other clients of a client's cluster at an edge, most similar first; none for noise."""
    place = clusters.place[client]
    cluster = clusters.cluster[place]
    if cluster == NOISE:
        return []
    similarity = clusters.similarity(place)
    order = np.argsort(-similarity, kind="stable")
    same = order[(clusters.cluster[order] == cluster) & (order != place)]
    return [int(clusters.clients[other]) for other in same]


def _fall_back(
    problem: Problem,
    plan: Plan,
    round_: Round,
    index: int,
    assignment: IntArray,
    failed: list[int],
) -> IntArray:
    """Lines 7-8: random backups at the failed edges, as many as are absent, then Algs. 2 and 3.

    What the other edges have got stays; at the failed ones the online long-term clients stay.
    """
    scenario = plan.scenario
    at_failed = np.isin(assignment, failed) & (assignment != UNASSIGNED)
    settled = np.where(at_failed & (plan.edge_of != assignment), UNASSIGNED, assignment)
    free = settled[scenario.links.client] == UNASSIGNED
    usable = ~free | np.isin(scenario.links.edge, failed)
    instance = build_instance(replace(problem, pinned=settled), usable=usable)
    rng = generator(plan.seed, "backups", index)
    start = [np.flatnonzero(settled != UNASSIGNED)]
    taken = settled != UNASSIGNED
    for edge in failed:
        candidates = instance.link_client[instance.link_edge == edge]
        candidates = candidates[~taken[candidates]]
        absent = int(((plan.edge_of == edge) & ~round_.online).sum())
        backups = rng.permutation(candidates)[:absent]
        taken[backups] = True
        start.append(backups)
    found = improve_client_set(instance, np.concatenate(start), nodes=_FALLBACK_NODES)
    return found.assignment
