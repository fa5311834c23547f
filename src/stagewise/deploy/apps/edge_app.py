"""An edge: a node of the cloud's SuperLink that trains with its own clients at its own SuperLink.

`python -m stagewise.deploy.apps.edge_app --edge e1 --node 127.0.0.1:9400 --node-secret node.secret
--superlink 127.0.0.1:9093 --root-certificates ca.pem --superlink-secret superlink.secret`
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from stagewise.deploy.channel import MessageChannel, roll_call
from stagewise.deploy.edge_rounds import train_edges
from stagewise.deploy.executor import serve
from stagewise.deploy.messages import (
    EdgeOrder,
    EdgeReply,
    RollCallReply,
    RollCallRequest,
    model_of,
    pack,
    read,
)
from stagewise.deploy.superlink import SuperLink
from stagewise.errors import StagewiseError, shown
from stagewise.files import read_bytes

Connection = Callable[[], contextlib.AbstractContextManager[MessageChannel]]


def make_app(name: str, connection: Connection) -> ClientApp:
    """The Flower app of the edge `name`, whose clients are reached by `connection`."""
    app = ClientApp()

    @app.query()
    def answer_roll_call(message: Message, context: Context) -> Message:
        deadline_s = read(message.content, RollCallRequest).deadline_s
        with connection() as channel:
            present = roll_call(channel, channel.node_names(), deadline_s)
        clients = {client: seconds for client, (_, seconds) in present.items()}
        return Message(pack(RollCallReply(id=name, clients=clients)), reply_to=message)

    @app.train()
    def edge_rounds(message: Message, context: Context) -> Message:
        order, weights = read(message.content, EdgeOrder), model_of(message.content)
        if order.edge != name or weights is None:
            raise StagewiseError(f"edge = {shown(order.edge)}: must be {name}, and have a model")
        with connection() as channel:
            (edge,) = train_edges(channel, [order], weights)
        data, reports = edge.report.data, tuple(edge.clients)
        reply = EdgeReply(round=order.round, edge=name, data=data, reports=reports)
        return Message(pack(reply, edge.weights), reply_to=message)

    return app


class Reconnecting:
    """A SuperLink that may be restarted: after a failure the next use connects again."""

    def __init__(self, connect: Callable[[], SuperLink]) -> None:
        self._connect = connect
        self._link: SuperLink | None = connect()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[MessageChannel]:
        if self._link is None:
            self._link = self._connect()
        try:
            yield self._link
        except Exception:
            link, self._link = self._link, None
            with contextlib.suppress(Exception):  # the first error is the one to report
                link.close()
            raise


def arguments() -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(prog="stagewise-edge", description="An edge's server")
    parser.add_argument("--edge", required=True, help="its id in the scenario")
    parser.add_argument("--node", required=True, help="host:port of its SuperNode on this machine")
    parser.add_argument("--node-secret", required=True, type=Path, help="the SuperNode's secret")
    parser.add_argument("--superlink", required=True, help="host:port of its own SuperLink")
    parser.add_argument("--root-certificates", required=True, type=Path, help="ca.pem")
    parser.add_argument("--superlink-secret", required=True, type=Path, help="its SuperLink's")
    return parser.parse_args()


def main() -> None:
    given = arguments()

    def connect() -> SuperLink:
        return SuperLink(given.superlink, given.root_certificates, given.superlink_secret)

    app = make_app(given.edge, Reconnecting(connect))
    serve(app, [given.node], read_bytes(given.node_secret))


if __name__ == "__main__":
    from stagewise.deploy.apps.running import run

    run(main)
