"""A long-lived executor of ClientApp tasks, for one or more SuperNodes on this machine.

Flower starts a process for every message, which imports everything again: 3 to 7 seconds each where
PyTorch is needed. A SuperNode with `--isolation process` leaves that to whoever knows its secret. This
one process takes the tasks of all SuperNodes of a client, one at a time, and keeps what it imported and
read. It executes the app it was given and nothing that comes over the network.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Sequence

import httpx
from flwr.app import Context, Message

from stagewise.deploy.flower_api import App, NodeTasks

PAUSE_S = 0.5


def serve(app: App, nodes: Sequence[str], secret: bytes) -> None:
    """Do the tasks of the SuperNodes at `nodes` (host:port on this machine) until interrupted.

    A SuperNode that is not running yet, or no longer, is asked again later.
    """
    one_at_a_time = threading.Lock()

    def app_alone(message: Message, context: Context) -> Message:
        with one_at_a_time:
            return app(message, context)

    # A thread for each: one may wait long for the rest of a message whose sender is gone.
    threads = [
        threading.Thread(target=_serve_node, args=(app_alone, NodeTasks(node, secret)), daemon=True)
        for node in nodes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve_node(app: App, tasks: NodeTasks) -> None:
    while True:
        try:
            if tasks.execute_next(app):
                continue
        except (httpx.HTTPError, OSError):
            pass
        except Exception:  # a task that cannot be done must not end the others
            traceback.print_exc()
        time.sleep(PAUSE_S)
