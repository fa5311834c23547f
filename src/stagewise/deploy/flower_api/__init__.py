"""Every use of what Flower 1.41 does not promise to keep; whatever else talks to Flower calls this.

Flower would start a ServerApp as a process of its own, a SuperNode for every server of a client, which
looks for messages every three seconds, and a process for every message. Here the caller's own loop holds
the run, and one process is the node of all its servers: the classes here do what those programs do, over
the same requests. `tests/deploy/test_flower_contract.py` says what a new version of Flower has changed.
"""

from stagewise.deploy.flower_api.fleet_node import FleetNode
from stagewise.deploy.flower_api.requests import (
    HEARTBEAT_S,
    App,
    at_superlink,
    beating,
    fate_of,
    is_final,
    is_run_lost,
)
from stagewise.deploy.flower_api.server_run import PartialReply, ReplySource, ServerRun

__all__ = [
    "HEARTBEAT_S",
    "App",
    "FleetNode",
    "PartialReply",
    "ReplySource",
    "ServerRun",
    "at_superlink",
    "beating",
    "fate_of",
    "is_final",
    "is_run_lost",
]
