"""Who is there: every connected node is asked which client it is."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.serverapp import Grid

from stagewise.errors import StagewiseError
from stagewise.flower.query import client_of, question
from stagewise.flower.replies import asked_for, failure
from stagewise.world.scenario import Clients

_LOOK_AGAIN_S = 0.5


@dataclass(frozen=True)
class Presence:
    """The node of every client that is ready to train, in the scenario's order."""

    node_of: Mapping[str, int]
    refused: Mapping[int, str] = field(default_factory=dict)
    """Nodes whose answer was of no use, and why."""


def await_nodes(grid: Grid, wanted: int, patience_s: float) -> None:
    """Return once `wanted` nodes are connected, or after `patience_s` seconds."""
    end = time.monotonic() + patience_s
    while len(list(grid.get_node_ids())) < wanted and time.monotonic() < end:
        time.sleep(_LOOK_AGAIN_S)


def call_roll(
    grid: Grid, clients: Clients, before: Mapping[str, int], server_round: int, answer_s: float
) -> Presence:
    """Who answers within `answer_s` seconds.

    Of several nodes that claim one client, the node that was it `before` keeps it, otherwise the one
    with the lowest number; the others are refused.
    """
    nodes = sorted(grid.get_node_ids())
    if not nodes:
        return Presence({})
    questions = [question(node, server_round, answer_s) for node in nodes]
    answers = grid.send_and_receive(questions, timeout=answer_s)
    claims: dict[str, list[int]] = {}
    refused: dict[int, str] = {}
    for node, answer in asked_for(answers, nodes, str(server_round)).items():
        if (reason := failure(answer)) is not None:
            refused[node] = reason
            continue
        try:
            client = client_of(answer, clients.ids)
        except StagewiseError as error:
            refused[node] = str(error)
            continue
        if client is not None:
            claims.setdefault(client, []).append(node)
    node_of = {}
    for client in sorted(claims, key=clients.index.__getitem__):
        known = before.get(client)
        holder = known if known in claims[client] else claims[client][0]
        assert holder is not None
        node_of[client] = holder
        refused |= {
            node: f"client {client!r} is node {holder}" for node in claims[client] if node != holder
        }
    return Presence(node_of, refused)
