"""A node of a SuperLink, held by a process of ours: what `flower-supernode` does, without its pauses."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import HEARTBEAT_MIN_INTERVAL, ErrorCode
from flwr.common.serde import message_from_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from stagewise.deploy.flower_api.requests import (
    WAIT_S,
    App,
    Headers,
    deflated,
    download,
    new_client,
    upload,
)
from stagewise.deploy.request_filter import NOTE, SEEN, WAIT
from stagewise.errors import StagewiseError, one_line

_PAUSE_S = 0.02
_UPLOAD_S = 60.0


class FleetNode:
    """A node of a SuperLink, held by this process; for one thread, but for `beat` and `say`."""

    def __init__(self, address: str, authority: bytes, private_key: bytes) -> None:
        self._place = address, authority
        key = load_ssh_private_key(private_key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise StagewiseError("a node's key must be on an elliptic curve")
        self._auth = NodeAuthHttpInterceptor(key, key.public_key())
        self._public = public_key_to_bytes(key.public_key())
        self._client, self._headers = self._fleet()
        self._beats, _ = self._fleet()
        self._node = Node()

    def connect(self) -> None:
        """Say that the node is there."""
        request = ActivateNodeRequest(
            public_key=self._public, heartbeat_interval=HEARTBEAT_MIN_INTERVAL
        )
        self._node = Node(node_id=self._client.ActivateNode(request).node_id)
        self._headers.version = ""

    def beat(self) -> None:
        """Once every `HEARTBEAT_S` seconds: the node is there still."""
        self._beats.SendNodeHeartbeat(
            SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=HEARTBEAT_MIN_INTERVAL)
        )

    def say(self, note: str) -> None:
        """What the server is to know of this node."""
        self._beats._unary_unary(
            path=NOTE, rpc_method="", request=PlainText(note), response_type=PlainText
        )

    def next_message(self) -> Message | None:
        """The next message with its content; None if there is none for `WAIT_S` seconds."""
        self._headers.next = {WAIT: str(WAIT_S), SEEN: self._headers.version}
        found = self._client.PullMessages(PullMessagesRequest(node=self._node))
        if not found.messages_list:
            return None
        self._headers.version = ""  # there may be another
        head, tree = message_from_proto(found.messages_list[0]), found.message_object_trees[0]
        place: dict[str, Any] = {"node": self._node, "run_id": head.metadata.run_id}
        missing = [each.object_id for each in iterate_object_tree(tree)]
        objects: dict[str, bytes] = {}
        deadline = time.monotonic() + _UPLOAD_S
        while not download(self._client, missing, objects, place):
            if time.monotonic() > deadline:
                raise LookupError("a message whose upload broke off")
            time.sleep(_PAUSE_S)
        message_id = head.metadata.message_id
        self._client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(message_object_id=message_id, **place)
        )
        message = cast(Message, inflate_object_from_contents(message_id, objects))
        message.metadata.__dict__["_message_id"] = message_id
        return message

    def reply(self, app: App, message: Message) -> None:
        """Have a message answered by `app`, or by its error, and send that."""
        context = Context(
            run_id=message.metadata.run_id,
            node_id=self._node.node_id,
            node_config={},
            state=RecordDict(),
            run_config={},
            series_id=0,
        )
        try:
            answer = app(message, context)
        except Exception as error:
            reason = one_line(f"{type(error).__name__}: {error}")
            print(f"{message.metadata.message_type}: {reason}", file=sys.stderr, flush=True)
            failure = Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason)
            answer = Message(failure, reply_to=message)
        objects, trees, heads = deflated([answer])
        request = PushMessagesRequest(
            node=self._node, messages_list=heads, message_object_trees=trees
        )
        response = self._client.PushMessages(request)
        place = {
            "node": self._node,
            "run_id": message.metadata.run_id,
            "session_id": response.session_id,
        }
        upload(self._client, self._headers, objects, list(response.objects_to_push), place)

    def close(self) -> None:
        """Say that the node goes."""
        with contextlib.suppress(Exception):
            if self._node.node_id:
                request = DeactivateNodeRequest(node_id=self._node.node_id)
                self._client.DeactivateNode(request)
        self._beats.close()
        self._client.close()

    def _fleet(self) -> tuple[FleetHttpClient, Headers]:
        headers = Headers()
        return new_client(FleetHttpClient, self._place, self._auth, headers), headers


class PlainText:
    """A body that is not a protobuf, behind the two methods that Flower's client calls."""

    def __init__(self, text: str = "") -> None:
        self._text = text

    def SerializeToString(self, deterministic: bool = False) -> bytes:
        return self._text.encode()

    def ParseFromString(self, content: bytes) -> None:
        self._text = content.decode()
