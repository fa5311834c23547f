"""This process as the ServerApp of a SuperLink.

Flower would start a ServerApp as a process of its own (`flwr run`, then `flower-superexec` and
`flwr-serverapp`). Here the caller's own loop is to hold the Grid: it may be killed and resumed, and
in design H an edge is client and server at once. So the SuperLink runs with `--isolation process`,
where whoever knows the shared secret may take a task, and this class does what those programs do: it
starts a run over the Control API, acquires its task over the Runtime API, and opens Flower's own
`HttpGrid` with the task's token. All of it goes over TLS, checked against the deployment's authority.
The bundle that a run needs by Flower's rules is empty of code: nodes execute what is installed there.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.app import Message, Metadata
from flwr.app.message import make_message
from flwr.common.constant import SUPERLINK_NODE_ID, SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, StartRunRequest
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.date import now
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.retry import RetryInvoker, exponential
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import HttpGrid
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from stagewise.deploy.edge_rounds import Answer, Letter
from stagewise.deploy.inbox import PATIENCE_S, Inbox
from stagewise.errors import StagewiseError, one_line
from stagewise.files import read_bytes

HEARTBEAT_S = 10.0
_JOIN_S = 5.0

CLOCKS_APART_S = 5.0
"""How far the clocks of machines may be apart, which is also what Flower allows."""

_COMPONENT = "stagewise"
_ACQUIRE = frozenset({"/flwr.proto.Runtime/AcquireTask"})
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


class SuperLink:
    """A run at a SuperLink, with its Grid; nodes are known by the names they were registered with.

    `address` is `host:port`, `authority` the file of the authority's certificate, `secret` the file of
    the secret that the SuperLink was started with.
    """

    def __init__(self, address: str, authority: Path, secret: Path) -> None:
        self._address, self._authority = address, read_bytes(authority)
        self._nodes: dict[str, int] = {}
        with _explained(address):
            run_id = self._start_run()
            token = self._acquire(run_id, read_bytes(secret))
            self._grid = HttpGrid(address, root_certificates=self._authority, token=token)
            self._grid._retry_invoker = _patient()
            self._client = self._runtime(RuntimeTokenHttpInterceptor(token=token), _patient())
            started = self._client.PullTaskInput(PullTaskInputRequest())
            self._grid.set_run(run_from_proto(started.run))
            self._run_id, self._task_id = started.run.run_id, started.task_id
            # An answer is given out once: its pull is not to be tried again by itself.
            self._pulls = self._runtime(RuntimeTokenHttpInterceptor(token=token), retry=None)
        self._closed = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True, name="stagewise-heartbeat")
        self._heart.start()
        self._inbox = Inbox(self._pulls, self._run_id, address)

    def names(self) -> tuple[str, ...]:
        """The names of the nodes that are connected, as far as Flower knows.

        It takes the SuperLink 33 to 60 seconds to notice that a node is gone.
        """
        with _explained(self._address):
            nodes = list(self._grid.get_nodes())
        self._nodes = {node.name: node.node_id for node in nodes if node.name}
        return tuple(self._nodes)

    def connected(self, name: str) -> bool:
        return name in self.names()

    def send(self, letters: Sequence[Letter], expire_s: float) -> list[str]:
        """Push the letters; a number for each, empty where its receiver is not connected."""
        self.names()
        numbers = [""] * len(letters)
        known = [place for place, letter in enumerate(letters) if letter.to in self._nodes]
        if not known:
            return numbers
        messages = [self._message(letters[place], expire_s) for place in known]
        with _explained(self._address):
            given = list(self._grid.push_messages(messages))
        if not given:
            raise StagewiseError(f"{self._address}: the SuperLink: the messages are too large")
        for place, number in zip(known, given, strict=True):
            numbers[place] = number or ""
        self._inbox.expect([number for number in given if number])
        return numbers

    def collect(self) -> list[Answer]:
        """What has arrived, also for letters that nobody waits for any more; does not wait."""
        return self._inbox.drain()

    def close(self) -> None:
        """End the run; the SuperLink and its nodes stay."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._client._retry_invoker = None
        self._inbox.close()
        self._heart.join(_JOIN_S)
        done = PushTaskOutputRequest(sub_status=SubStatus.COMPLETED, details="")
        with contextlib.suppress(Exception):  # a SuperLink that is gone has no run to end
            self._client.PushTaskOutput(done)
        for connection in (self._pulls, self._client, self._grid):
            connection.close()

    def _start_run(self) -> int:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(zipfile.ZipInfo("pyproject.toml"), _BUNDLE)
        fab = packed.getvalue()
        bundle = fab_to_proto(Fab(hashlib.sha256(fab).hexdigest(), fab, {}))
        with _control(self._address, self._authority) as control:
            response = control.StartRun(StartRunRequest(fab=bundle))
        if not response.HasField("run_id"):
            raise StagewiseError(f"{self._address}: the SuperLink did not start a run")
        return int(response.run_id)

    def _acquire(self, run_id: int, secret: bytes) -> str:
        """The token of the run's task; what a killed process left pending is put aside."""
        auth = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=_ACQUIRE)
        request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        with contextlib.closing(self._runtime(auth, _patient())) as client:
            give_up = time.monotonic() + PATIENCE_S
            while time.monotonic() < give_up:
                response = client.AcquireTask(request)
                if response.token and response.task.run_id == run_id:
                    return str(response.token)
                if not response.token:
                    time.sleep(0.1)
        raise StagewiseError(f"{self._address}: the SuperLink gave no task for run {run_id}")

    def _runtime(
        self,
        interceptor: RuntimeTokenHttpInterceptor | SuperExecAuthHttpInterceptor,
        retry: RetryInvoker | None,
    ) -> RuntimeHttpClient:
        return RuntimeHttpClient.from_server_address(
            self._address,
            False,
            self._authority,
            [RuntimeVersionHttpInterceptor(component_name=_COMPONENT), interceptor],
            retry_invoker=retry,
        )

    def _beat(self) -> None:
        """Tell the SuperLink that the run goes on; if it does not listen, the next message shows."""
        while not self._closed.wait(HEARTBEAT_S):
            with contextlib.suppress(Exception):
                self._client.SendTaskHeartbeat(SendTaskHeartbeatRequest())

    def _message(self, letter: Letter, expire_s: float) -> Message:
        # The constructor would take the run from a global that an edge has two of.
        metadata = Metadata(
            run_id=self._run_id,
            message_id="",
            src_node_id=SUPERLINK_NODE_ID,
            dst_node_id=self._nodes[letter.to],
            reply_to_message_id="",
            group_id="",
            created_at=now().timestamp(),
            ttl=expire_s + CLOCKS_APART_S,
            message_type=letter.kind,
            src_task_id=self._task_id,
        )
        return make_message(metadata=metadata, content=letter.content)


def register_node(address: str, authority: Path, public_key: Path, name: str) -> None:
    """Let the node with this key connect to the SuperLink, under `name`; twice is as good as once."""
    key = public_key_to_bytes(_elliptic(load_ssh_public_key(read_bytes(public_key)), public_key))
    with _explained(address), _control(address, read_bytes(authority)) as control:
        try:
            control.RegisterNode(RegisterNodeRequest(public_key=key, name=name))
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.PRECONDITION_FAILED:  # known already
                raise


def deactivate_node(address: str, authority: Path, private_key: Path) -> None:
    """Say in the name of a node that was killed that it is gone.

    Otherwise the SuperLink would refuse it, for up to a minute, as one that is connected already.
    """
    loaded = load_ssh_private_key(read_bytes(private_key), None)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise StagewiseError(f"{private_key}: must be a key on an elliptic curve")
    public = public_key_to_bytes(loaded.public_key())
    certificate = read_bytes(authority)
    with _explained(address):
        with _control(address, certificate) as control:
            nodes = control.ListNodes(ListNodesRequest()).nodes_info
        online = [n.node_id for n in nodes if n.public_key == public and n.status == "online"]
        auth = NodeAuthHttpInterceptor(loaded, loaded.public_key())
        version = RuntimeVersionHttpInterceptor(component_name="SuperNode")
        with FleetHttpClient.from_server_address(
            address, False, certificate, [version, auth]
        ) as fleet:
            for node_id in online:
                fleet.DeactivateNode(DeactivateNodeRequest(node_id=node_id))


def _elliptic(key: object, path: Path) -> ec.EllipticCurvePublicKey:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise StagewiseError(f"{path}: must be a key on an elliptic curve")
    return key


@contextlib.contextmanager
def _control(address: str, authority: bytes) -> Iterator[ControlHttpClient]:
    client = ControlHttpClient.from_server_address(
        address,
        False,
        authority,
        [RuntimeVersionHttpInterceptor(component_name=_COMPONENT)],
    )
    try:
        yield client
    finally:
        client.close()


def _patient() -> RetryInvoker:
    """Flower's own would try for ever, and interrupt the process where it is refused."""

    def final(error: Exception) -> bool:
        return isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500

    return RetryInvoker(
        lambda: exponential(base_delay=0.2, max_delay=2),
        (httpx.TransportError, httpx.HTTPStatusError),
        max_tries=None,
        max_time=PATIENCE_S,
        should_giveup=final,
    )


@contextlib.contextmanager
def _explained(address: str) -> Iterator[None]:
    try:
        yield
    except StagewiseError:
        raise
    except Exception as error:  # Flower raises whatever it meets
        reason = one_line(str(error)) or type(error).__name__
        raise StagewiseError(f"{address}: the SuperLink: {reason}") from None
