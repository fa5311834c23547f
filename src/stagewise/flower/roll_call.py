"""Who is there: every connected node is asked which client it is."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.serverapp import Grid

from stagewise.errors import StagewiseError
from stagewise.flower.query import client_of, roll_call_message
from stagewise.flower.replies import asked_for, failure
from stagewise.world.scenario import Clients

_PAUSE_S = 0.5


@dataclass(frozen=True)
class ClientNodes:
    """The node of every client that is ready to train, in the scenario's order."""

    node_of: Mapping[str, int]
    refused: Mapping[int, str] = field(default_factory=dict)
    """Nodes whose answer was of no use, and why."""


def await_nodes(grid: Grid, count: int, wait_s: float) -> None:
    """Return once `count` nodes are connected, or after `wait_s` seconds."""
    deadline = time.monotonic() + wait_s
    while len(list(grid.get_node_ids())) < count and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)


def roll_call(
    grid: Grid, clients: Clients, before: Mapping[str, int], server_round: int, answer_s: float
) -> ClientNodes:
    """Who answers within `answer_s` seconds.

    Of several nodes that claim one client, the node that was it `before` keeps it, otherwise the one
    with the lowest number; the others are refused.
    """
    nodes = sorted(grid.get_node_ids())
    if not nodes:
        return ClientNodes({})
    messages = [roll_call_message(node, server_round, answer_s) for node in nodes]
    answers = grid.send_and_receive(messages, timeout=answer_s)
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
    return ClientNodes(node_of, refused)
