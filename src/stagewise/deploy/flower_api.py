"""Every use of what Flower 1.41 does not promise to keep; whatever else talks to Flower calls this.

Flower would start a ServerApp as a process of its own (`flwr run`, then `flower-superexec` and
`flwr-serverapp`), and a process for every message to a ClientApp. Here the caller's own loop is to hold
the Grid: it may be killed and resumed, and in design H an edge is client and server at once. So
SuperLinks and SuperNodes run with `--isolation process`, where whoever knows the shared secret may take
a task, and the classes here do what those programs do.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import threading
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.app import Context, Error, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode, SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.date import now
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.retry import RetryInvoker, exponential
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import HttpGrid
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from stagewise.errors import StagewiseError, one_line
from stagewise.fates import Fate
from stagewise.files import read_bytes

RETRY_S = 30.0
"""How long a SuperLink may be out of reach before that is an error."""

HEARTBEAT_S = 10.0
_JOIN_S = 5.0

App = Callable[[Message, Context], Message]

_NODE = Node(node_id=SUPERLINK_NODE_ID)
_FAILED_APPS = (ErrorCode.CLIENT_APP_RAISED_EXCEPTION, ErrorCode.LOAD_CLIENT_APP_EXCEPTION)
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


def is_final(error: Exception) -> bool:
    """Whether the server answered that it will not; without an answer it may come back."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500


def fate_of(error: Error) -> Fate:
    """What a reply without content makes of its update: rejected if the ClientApp itself failed."""
    return "rejected" if error.code in _FAILED_APPS else "lost"


class ServerRun:
    """A run at a SuperLink, held by this process as its ServerApp; nodes are known by their ids.

    It is started over the Control API and its task acquired over the Runtime API, all over TLS.
    """

    def __init__(self, address: str, authority: bytes, secret: bytes) -> None:
        run_id = _start_run(address, authority)
        token = _acquire_run(address, authority, secret, run_id)
        self._grid = HttpGrid(address, root_certificates=authority, token=token)
        self._grid._retry_invoker = _bounded_retry()
        self._client = _runtime(address, authority, token=token, retry=True)
        started = self._client.PullTaskInput(PullTaskInputRequest())
        self._grid.set_run(run_from_proto(started.run))
        self._run_id, self._task_id = started.run.run_id, started.task_id
        # A reply is given out once: its pull is not to be tried again by itself.
        self._pulls = _runtime(address, authority, token=token)
        self.replies = ReplySource(self._pulls, self._run_id)
        self._alive = contextlib.ExitStack()
        self._alive.enter_context(_heartbeat(self._client))

    def nodes(self) -> dict[str, int]:
        """The ids of the nodes that are connected, by name, as far as Flower knows.

        It takes the SuperLink 33 to 60 seconds to notice that a node is gone.
        """
        return {node.name: node.node_id for node in self._grid.get_nodes() if node.name}

    def push(
        self, messages: Sequence[tuple[int, str, RecordDict]], ttl_s: float
    ) -> list[str | None]:
        """Send (node, kind, content) each; the ids of the messages, nothing if they are too large."""
        made = [self._message(*message, ttl_s) for message in messages]
        return [message_id or None for message_id in self._grid.push_messages(made)]

    def close(self) -> None:
        """End the run; the SuperLink and its nodes stay."""
        self._client._retry_invoker = None
        self._alive.close()
        with contextlib.suppress(Exception):  # a SuperLink that is gone has no run to end
            self._client.PushTaskOutput(
                PushTaskOutputRequest(sub_status=SubStatus.COMPLETED, details="")
            )
        for connection in (self._pulls, self._client, self._grid):
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

    def __init__(self, client: RuntimeHttpClient, run_id: int) -> None:
        self._client, self._run_id = client, run_id

    def announced(self, message_ids: Sequence[str]) -> list[PartialReply]:
        """The replies to these messages that have come since; each is given out once."""
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
        place: dict[str, Any] = {"node": _NODE, "run_id": self._run_id}
        while reply.missing:
            found = self._client.PullObject(PullObjectRequest(object_id=reply.missing[-1], **place))
            if not found.object_found:
                raise LookupError("its upload broke off")
            if not found.object_available:
                return False
            reply.objects[reply.missing.pop()] = found.object_content
        with contextlib.suppress(httpx.HTTPError, OSError):  # it only frees the SuperLink's memory
            request = ConfirmMessageReceivedRequest(message_object_id=reply.reply_id, **place)
            self._client.ConfirmMessageReceived(request)
        return True


class NodeTasks:
    """The tasks of a SuperNode on this machine, for the program that executes its ClientApp."""

    def __init__(self, address: str, secret: bytes) -> None:
        self._address = address
        # Plain HTTP: the SuperNode is on loopback, and gives tasks to nobody without the secret.
        self._client = _runtime(address, None, secret=secret)

    def execute_next(self, app: App) -> bool:
        """Do a task that is waiting and push its reply, or its error; false if there is none."""
        request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
        token = self._client.AcquireTask(request).token
        if not token:
            return False
        client = _runtime(self._address, None, token=token)
        with contextlib.closing(client), _heartbeat(client):
            message, context, _, _ = pull_task_input(client)
            try:
                reply, status, reason = app(message, context), SubStatus.COMPLETED, ""
            except Exception as error:
                traceback.print_exc()
                status, reason = SubStatus.FAILED, one_line(f"{type(error).__name__}: {error}")
                failure = Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason)
                reply = Message(failure, reply_to=message)
            push_message(client, reply, context)
            push_task_output(client, context, status, reason)
        return True


def register_node(address: str, authority: Path, public_key: Path, name: str) -> None:
    """Let the node with this key connect to the SuperLink, under `name`; twice is as good as once."""
    key = load_ssh_public_key(read_bytes(public_key))
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise StagewiseError(f"{public_key}: must be a key on an elliptic curve")
    request = RegisterNodeRequest(public_key=public_key_to_bytes(key), name=name)
    with at_superlink(address), _control(address, read_bytes(authority)) as control:
        try:
            control.RegisterNode(request)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.PRECONDITION_FAILED:  # known already
                raise


@contextlib.contextmanager
def at_superlink(address: str) -> Iterator[None]:
    """Whatever goes wrong inside is an error of one line: Flower raises whatever it meets."""
    try:
        yield
    except StagewiseError:
        raise
    except Exception as error:
        reason = one_line(str(error)) or type(error).__name__
        raise StagewiseError(f"{address}: the SuperLink: {reason}") from None


def _start_run(address: str, authority: bytes) -> int:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("pyproject.toml"), _BUNDLE)
    fab = packed.getvalue()
    bundle = fab_to_proto(Fab(hashlib.sha256(fab).hexdigest(), fab, {}))
    with _control(address, authority) as control:
        response = control.StartRun(StartRunRequest(fab=bundle))
    if not response.HasField("run_id"):
        raise ConnectionError("it did not start a run")
    return int(response.run_id)


def _acquire_run(address: str, authority: bytes, secret: bytes, run_id: int) -> str:
    """The token of the run's task; what a killed process left pending is put aside."""
    request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
    with contextlib.closing(_runtime(address, authority, secret=secret, retry=True)) as client:
        deadline = time.monotonic() + RETRY_S
        while time.monotonic() < deadline:
            response = client.AcquireTask(request)
            if response.token and response.task.run_id == run_id:
                return str(response.token)
            if not response.token:
                time.sleep(0.1)
    raise ConnectionError(f"it gave no task for run {run_id}")


def _runtime(
    address: str,
    authority: bytes | None,
    *,
    secret: bytes = b"",
    token: str = "",
    retry: bool = False,
) -> RuntimeHttpClient:
    """Flower's Runtime API: with a task's token, or with the secret by which tasks are acquired."""
    auth = (
        RuntimeTokenHttpInterceptor(token)
        if token
        else SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=_ACQUIRE)
    )
    return RuntimeHttpClient.from_server_address(
        address,
        authority is None,
        authority,
        [RuntimeVersionHttpInterceptor(component_name="stagewise"), auth],
        retry_invoker=_bounded_retry() if retry else None,
    )


@contextlib.contextmanager
def _control(address: str, authority: bytes) -> Iterator[ControlHttpClient]:
    version = RuntimeVersionHttpInterceptor(component_name="stagewise")
    client = ControlHttpClient.from_server_address(address, False, authority, [version])
    with contextlib.closing(client):
        yield client


@contextlib.contextmanager
def _heartbeat(client: RuntimeHttpClient) -> Iterator[None]:
    """Keep a task while the block runs; if nobody listens, the next message shows it."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_S):
            with contextlib.suppress(Exception):
                client.SendTaskHeartbeat(SendTaskHeartbeatRequest())

    thread = threading.Thread(target=beat, daemon=True, name="stagewise-heartbeat")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(_JOIN_S)


def _bounded_retry() -> RetryInvoker:
    """Flower's own would try for ever, and interrupt the process where it is refused."""
    return RetryInvoker(
        lambda: exponential(base_delay=0.2, max_delay=2),
        (httpx.TransportError, httpx.HTTPStatusError),
        max_tries=None,
        max_time=RETRY_S,
        should_giveup=is_final,
    )
