"""A process as the node of all its servers: a thread for each, one message at a time.

Flower starts a SuperNode for each server, which looks for messages every three seconds, and a process
for every message, which imports everything again. Here one process takes the messages of all its servers
as soon as there are any, and keeps what it imported and read. It executes the app it was given and
nothing that comes over the network.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context, Message

from stagewise.deploy.flower_api import HEARTBEAT_S, App, FleetNode
from stagewise.errors import StagewiseError, one_line
from stagewise.files import read_bytes

BUSY_HEARTBEAT_S = 1.5
"""The same for a node that is at work, and so does not ask for messages: others see that it is there."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 3.0
"""Between two tries to connect."""

SAY_AGAIN_S = 30.0


@dataclass(frozen=True)
class ServerAddress:
    """A server of a node: host:port, and the file of the key that the node has there."""

    address: str
    key: Path

    @classmethod
    def parse(cls, text: str) -> ServerAddress:
        """`HOST:PORT=KEY`, as in a command line."""
        address, equals, key = text.partition("=")
        if not equals or not address or not key:
            raise StagewiseError(f"server = {text!r}: must be HOST:PORT=KEY")
        return cls(address, Path(key))


class Link:
    """The connection to one server, which is made again whenever it breaks."""

    def __init__(self, server: ServerAddress, authority: bytes, app: App) -> None:
        self._server, self._authority, self._app = server, authority, app
        self._key = read_bytes(server.key)
        self._node = FleetNode(server.address, authority, self._key)
        self._connected = threading.Event()
        self._said, self._said_at = "", 0.0
        self._busy, self._beat_at = False, 0.0
        self.note = ""
        """What the server is to know of this node; said again after every connection."""

    def serve(self) -> None:
        """Take messages and answer them, for ever."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                if not self._connected.is_set():
                    self._take_in_key()
                    self._node.connect()
                    self._connected.set()
                    self._say_to_log("connected")
                    self.say(self.note)
                message = self._node.next_message()
                pause_s = FIRST_PAUSE_S
                if message is not None:
                    self._busy = True
                    self._node.reply(self._app, message)
                    self._busy = False
            except Exception as error:  # of whatever kind: the next try shows whether it matters
                self._connected.clear()
                self._busy = False
                self._say_to_log(one_line(f"{type(error).__name__}: {error}"))
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _take_in_key(self) -> None:
        """Be the node of another key if the file has one by now."""
        key = read_bytes(self._server.key)
        if key != self._key:
            old, self._node = self._node, FleetNode(self._server.address, self._authority, key)
            self._key = key
            old.close()

    def beat(self) -> None:
        """Tell the server that the node is there, if it is connected and it is time to."""
        every_s = BUSY_HEARTBEAT_S if self._busy else HEARTBEAT_S
        if self._connected.is_set() and time.monotonic() >= self._beat_at + every_s:
            self._beat_at = time.monotonic()
            self._node.beat()

    def say(self, note: str) -> None:
        """Tell the server news, now if it is connected."""
        self.note = note
        if note and self._connected.is_set():
            self._node.say(note)

    def _say_to_log(self, what: str) -> None:
        if what != self._said or time.monotonic() - self._said_at > SAY_AGAIN_S:
            self._said, self._said_at = what, time.monotonic()
            print(f"{self._server.address}: {what}", file=sys.stderr, flush=True)


def links_to(servers: Iterable[ServerAddress], authority: bytes, app: App) -> list[Link]:
    """The links of a node, of which one at a time executes `app`."""
    one_at_a_time = threading.Lock()

    def app_alone(message: Message, context: Context) -> Message:
        with one_at_a_time:
            return app(message, context)

    return [Link(server, authority, app_alone) for server in servers]


def serve(links: Sequence[Link]) -> None:
    """Serve all links until the process ends."""
    for link in links:
        threading.Thread(target=link.serve, daemon=True, name="stagewise-link").start()
    while True:
        time.sleep(BUSY_HEARTBEAT_S / 3)
        for link in links:
            with contextlib.suppress(Exception):  # the link's own thread finds out and says so
                link.beat()
