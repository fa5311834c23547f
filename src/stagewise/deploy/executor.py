"""A long-lived executor of ClientApp tasks, for one or more SuperNodes on this machine.

Flower starts a process for every message, which imports everything anew: 3 to 7 seconds each where
PyTorch is needed. A SuperNode with `--isolation process` leaves that to whoever knows its secret. This
one process takes the tasks of all SuperNodes of a client, one at a time, and keeps what it imported and
read. It executes the app it was given and nothing that comes over the network.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

import httpx
from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from stagewise.errors import one_line

POLL_S = 0.5
HEARTBEAT_S = 10.0

App = Callable[[Message, Context], Message]

_ACQUIRE = frozenset({"/flwr.proto.Runtime/AcquireTask"})


def serve(app: App, nodes: Sequence[str], secret: bytes) -> None:
    """Do the tasks of the SuperNodes at `nodes` (host:port on this machine) until interrupted.

    A SuperNode that is not there yet, or no more, is asked again later.
    """
    one_at_a_time = threading.Lock()

    def app_alone(message: Message, context: Context) -> Message:
        with one_at_a_time:
            return app(message, context)

    # A thread for each: one may wait long for the rest of a message whose sender is gone.
    threads = [
        threading.Thread(target=_serve_node, args=(app_alone, node, secret), daemon=True)
        for node in nodes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve_node(app: App, node: str, secret: bytes) -> None:
    auth = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=_ACQUIRE)
    client = _client(node, auth)
    request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
    while True:
        try:
            response = client.AcquireTask(request)
            if response.token:
                _do(app, _client(node, RuntimeTokenHttpInterceptor(response.token)))
                continue
        except (httpx.HTTPError, OSError):
            pass
        except Exception:  # a task that cannot be done must not end the others
            traceback.print_exc()
        time.sleep(POLL_S)


def _do(app: App, client: RuntimeHttpClient) -> None:
    """One task: pull its message, execute the app, push the answer, an error if it raises."""
    with contextlib.closing(client), _heartbeat(client):
        message, context, _, _ = pull_task_input(client)
        status, details = SubStatus.COMPLETED, ""
        try:
            reply = app(message, context)
        except Exception as error:
            traceback.print_exc()
            status, details = SubStatus.FAILED, one_line(f"{type(error).__name__}: {error}")
            code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            reply = Message(Error(code=code, reason=details), reply_to=message)
        push_message(client, reply, context)
        push_task_output(client, context, status, details)


def _client(
    node: str, interceptor: SuperExecAuthHttpInterceptor | RuntimeTokenHttpInterceptor
) -> RuntimeHttpClient:
    # Plain HTTP: the SuperNode listens on loopback only, and takes tasks from nobody without the secret.
    version = RuntimeVersionHttpInterceptor(component_name="stagewise")
    return RuntimeHttpClient.from_server_address(node, True, None, [version, interceptor])


@contextlib.contextmanager
def _heartbeat(client: RuntimeHttpClient) -> Iterator[None]:
    """Keep the task while the block runs."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_S):
            with contextlib.suppress(httpx.HTTPError, OSError):
                client.SendTaskHeartbeat(SendTaskHeartbeatRequest())

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
