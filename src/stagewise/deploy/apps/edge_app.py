"""An edge: a SuperLink for its clients and a node of the cloud's, in one process.

`python -m stagewise.deploy.apps.edge_app --edge e1 --server 10.0.0.1:9092=cloud.key
--superlink 10.0.0.2:9093 --folder edge-e1 --object-bytes 1000000`
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from prometheus_client import CollectorRegistry

from stagewise.deploy.apps.superlink_app import serve_superlink
from stagewise.deploy.certificates import AUTHORITY
from stagewise.deploy.channel import MessageChannel
from stagewise.deploy.edge_rounds import train_edges
from stagewise.deploy.exchange import ClientReport
from stagewise.deploy.layout import SUPERLINK_SECRET
from stagewise.deploy.messages import (
    EdgeNote,
    EdgeOrder,
    EdgeReply,
    encoded,
    model_of,
    pack,
    read,
)
from stagewise.deploy.metrics import EdgeMetrics
from stagewise.deploy.node import Link, ServerAddress, links_to, serve
from stagewise.deploy.presence import Contacts
from stagewise.deploy.superlink import SuperLink
from stagewise.errors import StagewiseError, one_line, shown
from stagewise.files import read_bytes

NOTE_EVERY_S = 2.0
"""How often the cloud is told who is in touch, also without news: it then knows that the edge is."""

_LOOK_EVERY_S = 0.05


def make_app(
    name: str,
    channel: Callable[[], MessageChannel],
    count: Callable[[Sequence[ClientReport], float], None] = lambda reports, seconds: None,
) -> ClientApp:
    """The Flower app of the edge `name`, whose clients are reached by `channel`.

    `count` is told of every round what became of its updates, and how many seconds it took.
    """
    app = ClientApp()

    @app.train()
    def edge_rounds(message: Message, context: Context) -> Message:
        order, weights = read(message.content, EdgeOrder), model_of(message.content)
        if order.edge != name or weights is None:
            raise StagewiseError(f"edge = {shown(order.edge)}: must be {name}, and have a model")
        began = time.monotonic()
        (edge,) = train_edges(channel(), [order], weights)
        count(edge.clients, time.monotonic() - began)
        data, reports = edge.report.data, tuple(edge.clients)
        reply = EdgeReply(round=order.round, edge=name, data=data, reports=reports)
        return Message(pack(reply, edge.weights), reply_to=message)

    return app


def note_of(present: Iterable[str]) -> str:
    """What the cloud is to know: the clients that are in touch."""
    return encoded(EdgeNote(clients=tuple(sorted(present))))


def keep_informed(link: Link, contacts: Contacts) -> None:
    """Tell the cloud who is in touch whenever that changes, for ever."""
    said_at = 0.0
    while True:
        note = note_of(contacts.present(time.monotonic()))
        if note != link.note or time.monotonic() - said_at > NOTE_EVERY_S:
            said_at = time.monotonic()
            try:
                link.say(note)
            except Exception as error:  # of whatever kind: it is tried again
                print(one_line(f"{type(error).__name__}: {error}"), flush=True)
        time.sleep(_LOOK_EVERY_S)


class OwnSuperLink:
    """The channel to this process's own SuperLink, made when it is first needed."""

    def __init__(self, address: str, folder: Path) -> None:
        self._place = address, folder / AUTHORITY, folder / SUPERLINK_SECRET
        self._link: SuperLink | None = None

    def __call__(self) -> MessageChannel:
        if self._link is None:
            self._link = SuperLink(*self._place)
        return self._link


def arguments() -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(prog="stagewise-edge", description="An edge's server")
    parser.add_argument("--edge", required=True, help="its id in the scenario")
    parser.add_argument("--server", required=True, help="HOST:PORT=KEY of the cloud's SuperLink")
    parser.add_argument("--superlink", required=True, help="host:port of its own SuperLink")
    parser.add_argument("--folder", required=True, type=Path, help="its certificate and secrets")
    parser.add_argument("--object-bytes", required=True, type=int, help="of the largest message")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    contacts, registry = Contacts(), CollectorRegistry()
    channel = OwnSuperLink(given.superlink, given.folder)
    app = make_app(given.edge, channel, EdgeMetrics(registry).add)
    server = ServerAddress.parse(given.server)
    (link,) = links = links_to([server], read_bytes(given.folder / AUTHORITY), app)
    for act in (lambda: serve(links), lambda: keep_informed(link, contacts)):
        threading.Thread(target=act, daemon=True).start()
    own = contacts, registry
    serve_superlink(given.superlink, given.folder, given.object_bytes, *own)


if __name__ == "__main__":
    from stagewise.deploy.running import run

    run(main)
