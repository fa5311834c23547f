"""A run at a SuperLink of this machine: orders to its nodes, and their replies."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import msgspec
from flwr.app import Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import SUPERLINK_NODE_ID, SubStatus
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import StartRunRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.date import now
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, SuperExecAuthHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient

from stagewise.deploy.flower_api.requests import (
    WAIT_S,
    Headers,
    beating,
    connected,
    deflated,
    download,
    new_client,
    upload,
)
from stagewise.deploy.request_filter import PRESENT, SEEN, TOKEN, WAIT

ACQUIRE_S = 60.0
"""How long a SuperLink may take to give out the task of a run."""

_PAUSE_S = 0.02
_SERVER = Node(node_id=SUPERLINK_NODE_ID)
_ACQUIRE = frozenset({"/flwr.proto.Runtime/AcquireTask"})
# A run needs a bundle by Flower's rules; this one has no code: nodes execute what is installed there.
_BUNDLE = b"""\
[project]
name = "stagewise"
version = "1.0.0"
description = "Nothing to execute: the nodes run what is installed there"
license = "Apache-2.0"

[tool.flwr.app]
publisher = "stagewise"

[tool.flwr.app.components]
serverapp = "stagewise_app:server"
clientapp = "stagewise_app:client"
"""


def control_token(secret: bytes) -> str:
    """What a program of this machine shows to a SuperLink whose secret it knows."""
    return hmac.new(secret, b"stagewise control", hashlib.sha256).hexdigest()


def metrics_token(secret: bytes) -> str:
    """What a Prometheus on this machine shows."""
    return hmac.new(secret, b"stagewise metrics", hashlib.sha256).hexdigest()


class ServerRun:
    """A run at a SuperLink of this machine, held by this process as its ServerApp.

    It is started over the Control API and its task acquired over the Runtime API, all over TLS.
    """

    def __init__(self, address: str, authority: bytes, secret: bytes) -> None:
        self._place, self._token = (address, authority), control_token(secret)
        run_id = self._start_run()
        task_token = self._acquire(secret, run_id)
        auth = RuntimeTokenHttpInterceptor(task_token)
        self._client, self._headers = self._runtime(auth)
        started = self._client.PullTaskInput(PullTaskInputRequest())
        self._run_id, self._task_id = started.run.run_id, started.task_id
        self._pulls, pull_headers = self._runtime(auth)
        self.replies = ReplySource(self._pulls, self._run_id, pull_headers)
        self._beats, _ = self._runtime(auth)
        self._alive = contextlib.ExitStack()
        self._alive.enter_context(
            beating(lambda: self._beats.SendTaskHeartbeat(SendTaskHeartbeatRequest()))
        )

    def present(self) -> dict[str, tuple[int, str]]:
        """The nodes that are in touch, by name: the id of each, and what it said last."""
        response = self._client._client.get(
            f"{self._client._base_url}{PRESENT}", headers={TOKEN: self._token}
        )
        response.raise_for_status()
        nodes = msgspec.json.decode(response.content)["nodes"]
        return {name: (node_id, note) for name, (node_id, note) in nodes.items()}

    def push(
        self, messages: Sequence[tuple[int, str, RecordDict]], ttl_s: float
    ) -> list[str | None]:
        """Send (node, kind, content) each; the ids of the messages, none for a node that is unknown."""
        made = [self._message(*message, ttl_s) for message in messages]
        objects, trees, heads = deflated(made)
        request = PushAppMessagesRequest(messages_list=heads, message_object_trees=trees)
        response = self._client.PushMessages(request)
        place = {"node": _SERVER, "run_id": self._run_id, "session_id": response.session_id}
        upload(self._client, self._headers, objects, list(response.objects_to_push), place)
        return [message_id or None for message_id in response.message_ids]

    def close(self) -> None:
        """End the run; the SuperLink and its nodes stay."""
        self._alive.close()
        with contextlib.suppress(Exception):  # a SuperLink that is gone has no run to end
            self._client.PushTaskOutput(
                PushTaskOutputRequest(sub_status=SubStatus.COMPLETED, details="")
            )
        for connection in (self._beats, self._pulls, self._client):
            connection.close()

    def _message(self, node: int, kind: str, content: RecordDict, ttl_s: float) -> Message:
        # The constructor would take the run from a global that an edge has two of.
        metadata = Metadata(
            run_id=self._run_id,
            message_id="",
            src_node_id=SUPERLINK_NODE_ID,
            dst_node_id=node,
            reply_to_message_id="",
            group_id="",
            created_at=now().timestamp(),
            ttl=ttl_s,
            message_type=kind,
            src_task_id=self._task_id,
        )
        return make_message(metadata=metadata, content=content)

    def _start_run(self) -> int:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(zipfile.ZipInfo("pyproject.toml"), _BUNDLE)
        fab = packed.getvalue()
        bundle = fab_to_proto(Fab(hashlib.sha256(fab).hexdigest(), fab, {}))
        with connected(ControlHttpClient, self._place, Headers(token=self._token)) as control:
            response = control.StartRun(StartRunRequest(fab=bundle))
        if not response.HasField("run_id"):
            raise ConnectionError("it did not start a run")
        return int(response.run_id)

    def _acquire(self, secret: bytes, run_id: int) -> str:
        """The token of the run's task; what a killed process left pending is put aside."""
        request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        auth = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=_ACQUIRE)
        client, _ = self._runtime(auth)
        with contextlib.closing(client):
            deadline = time.monotonic() + ACQUIRE_S
            while time.monotonic() < deadline:
                response = client.AcquireTask(request)
                if response.token and response.task.run_id == run_id:
                    return str(response.token)
                if not response.token:
                    time.sleep(_PAUSE_S)
        raise ConnectionError(f"it gave no task for run {run_id}")

    def _runtime(self, auth: Any) -> tuple[RuntimeHttpClient, Headers]:
        headers = Headers(token=self._token)
        return new_client(RuntimeHttpClient, self._place, auth, headers), headers


@dataclass
class PartialReply:
    """A reply that is at the SuperLink; the objects in `missing` were not fetched yet."""

    message_id: str
    """Of the message that it replies to."""
    reply_id: str
    missing: list[str]
    objects: dict[str, bytes] = field(default_factory=dict)

    def assemble(self) -> Message:
        """The reply, once nothing is missing."""
        return cast(Message, inflate_object_from_contents(self.reply_id, self.objects))


class ReplySource:
    """The replies at a SuperLink, part by part, as they are uploaded.

    `client` must not try again by itself: a reply is given out once.
    """

    def __init__(self, client: RuntimeHttpClient, run_id: int, headers: Headers) -> None:
        self._client, self._run_id, self._headers = client, run_id, headers
        self._asked: Sequence[str] = ()

    def announced(self, message_ids: Sequence[str], wait: bool = False) -> list[PartialReply]:
        """The replies to these messages that have come since; each is given out once.

        With `wait` it may take `WAIT_S` seconds until there is one.
        """
        if wait and message_ids == self._asked:
            self._headers.next = {WAIT: str(WAIT_S), SEEN: self._headers.version}
        self._asked, self._headers.version = message_ids, ""
        found = self._client.PullMessages(PullAppMessagesRequest(message_ids=message_ids))
        return [
            PartialReply(
                message.metadata.reply_to_message_id,
                message.metadata.message_id,
                [each.object_id for each in iterate_object_tree(tree)],
            )
            for message, tree in zip(found.messages_list, found.message_object_trees, strict=True)
        ]

    def fetch(self, reply: PartialReply) -> bool:
        """Whether nothing of a reply is missing any more; an error if the rest will never come."""
        version = self._headers.version
        place: dict[str, Any] = {"node": _SERVER, "run_id": self._run_id}
        try:
            if not download(self._client, reply.missing, reply.objects, place):
                return False
            with contextlib.suppress(httpx.HTTPError, OSError):  # it only frees memory
                request = ConfirmMessageReceivedRequest(message_object_id=reply.reply_id, **place)
                self._client.ConfirmMessageReceived(request)
            return True
        finally:
            self._headers.version = version
