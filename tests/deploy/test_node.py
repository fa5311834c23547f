"""A node's link to a server: which key it connects with."""

from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")

from stagewise.deploy import node
from stagewise.deploy.node import Link, ServerAddress


class Over(BaseException):
    """Ends a link that would serve for ever."""


class Server:
    """Lets in the node of one key."""

    def __init__(self, known: bytes) -> None:
        self.known = known
        self.tried: list[bytes] = []
        self.closed: list[bytes] = []

    def node(self, address: str, authority: bytes, key: bytes) -> "Node":
        if not key.endswith(b"\n"):
            raise ValueError("not a key")
        return Node(self, key)


class Node:
    def __init__(self, server: Server, key: bytes) -> None:
        self.server, self.key = server, key

    def connect(self) -> None:
        self.server.tried.append(self.key)
        if self.key != self.server.known:
            raise ConnectionError("401")

    def next_message(self) -> None:
        raise Over

    def close(self) -> None:
        self.server.closed.append(self.key)


def test_a_key_that_is_replaced_is_used_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cloud.key"
    path.write_bytes(b"old\n")
    # The file is copied slowly: as it was, in part, absent, and whole.
    contents = iter([b"old\n", b"ne", None, b"new\n"])

    def copy_on(_: float) -> None:
        content = next(contents, b"")
        if content is None:
            path.unlink()
        elif content:
            path.write_bytes(content)
        else:
            raise Over

    server = Server(b"new\n")
    monkeypatch.setattr(node, "FleetNode", server.node)
    monkeypatch.setattr(node.time, "sleep", copy_on)
    link = Link(ServerAddress("127.0.0.1:1", path), b"authority", lambda message, context: message)
    with pytest.raises(Over):
        link.serve()
    assert server.tried == [b"old\n", b"old\n", b"new\n"]
    assert server.closed == [b"old\n"]
