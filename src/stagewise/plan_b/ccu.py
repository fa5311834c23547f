"""Alg. 4, CCU: replace absent long-term clients by similar ones, found by clustering."""

from dataclasses import replace

import numpy as np

from stagewise.compiled import NONE
from stagewise.plan_b.similarity import NOISE, EdgeClusters, edge_clusters
from stagewise.plan_b.surplus import leave_out_surplus
from stagewise.plans import Plan
from stagewise.problem.statement import Mode, Problem, p2, still_there
from stagewise.randomness import generator
from stagewise.search.association import reading_of
from stagewise.search.client_set import improve_client_set
from stagewise.search.instance import Instance, build_instance
from stagewise.search.state import State, change_edge, find_link, new_state, start_from
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import BoolArray, IntArray


def cluster_based_update(
    plan: Plan, round_: Round, mode: Mode, seconds: float | None = None
) -> IntArray:
    """The round's assignment by Alg. 4; `flexible` leaves surplus long-term clients out at the end.

    `seconds` bounds the search of Algs. 2 and 3 where stand-ins do not suffice.
    """
    problem = p2(round_, plan.edge_of, "strict")
    instance = build_instance(problem)
    state = new_state(instance)
    start_from(instance, state, still_there(round_, plan.edge_of))  # lines 3-4
    failed = [
        edge
        for edge in np.flatnonzero(state.violation > 0).tolist()  # line 5
        if not _replace_absent(instance, state, plan, round_, edge)  # line 6
    ]
    assignment: IntArray = state.edge_of.copy()
    if failed:  # lines 7-8
        assignment = _fall_back(problem, plan, assignment, failed, seconds)
    if mode == "flexible":
        assignment = leave_out_surplus(p2(round_, plan.edge_of, "flexible"), assignment)
    return assignment


def _replace_absent(instance: Instance, state: State, plan: Plan, round_: Round, edge: int) -> bool:
    """Line 6 at one edge: a stand-in from the same cluster for each absent client, most alike first.

    True as soon as (12a) and (12b) hold; false where an absent client is noise or has no stand-in
    left and they do not hold.
    """
    clusters = edge_clusters(plan.scenario, round_.costs, edge)
    absent = np.flatnonzero(_absent(plan, round_, edge))
    for client in absent.tolist():
        for stand_in in _alike(clusters, client):
            link = find_link(instance, stand_in, edge)
            if link == NONE or state.edge_of[stand_in] != UNASSIGNED:
                continue
            if state.member_count[edge] >= plan.scenario.edges.capacity[edge]:
                return False
            change_edge(instance, state, edge, NONE, link)
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


def _absent(plan: Plan, round_: Round, edge: int) -> BoolArray:
    """The long-term clients of an edge that cannot serve it in the round."""
    return np.asarray((plan.edge_of == edge) & (still_there(round_, plan.edge_of) != edge))


def _fall_back(
    problem: Problem, plan: Plan, assignment: IntArray, failed: list[int], seconds: float | None
) -> IntArray:
    """Lines 7-8: random backups at the failed edges, as many as are absent, then Algs. 2 and 3.

    What the other edges have got stays; at the failed ones the online long-term clients stay.
    """
    scenario, round_ = plan.scenario, problem.round
    at_failed = np.isin(assignment, failed) & (assignment != UNASSIGNED)
    settled = np.where(at_failed & (plan.edge_of != assignment), UNASSIGNED, assignment)
    free = settled[scenario.links.client] == UNASSIGNED
    usable = ~free | np.isin(scenario.links.edge, failed)
    instance = build_instance(replace(problem, pinned=settled), usable=usable)
    rng = generator(plan.seed, "backups", round_.index)
    start = [np.flatnonzero(settled != UNASSIGNED)]
    taken = settled != UNASSIGNED
    for edge in failed:
        candidates = instance.link_client[instance.link_edge == edge]
        candidates = candidates[~taken[candidates]]
        absent = int(_absent(plan, round_, edge).sum())
        backups = rng.permutation(candidates)[:absent]
        taken[backups] = True
        start.append(backups)
    _, _, reading = plan.method.partition(":")
    found = improve_client_set(
        instance,
        np.concatenate(start),
        reading=reading_of(reading) if reading else None,
        seconds=seconds,
    )
    return found.assignment
