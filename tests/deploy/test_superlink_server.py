"""The register of a server's nodes: keys that change while it runs, and who signed a request."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")

from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from stagewise.deploy.certificates import KeyPair, make_node_key
from stagewise.deploy.flower_api import superlink_server
from stagewise.deploy.flower_api.superlink_server import NodeRegister
from stagewise.errors import StagewiseError


class State:
    """The nodes that Flower knows: public keys by id."""

    def __init__(self) -> None:
        self.nodes: dict[int, bytes] = {}
        self._last = 0

    def create_node(self, account: str, owner: str, key: bytes, *rest: Any, name: str) -> int:
        self._last += 1
        self.nodes[self._last] = key
        return self._last

    def delete_node(self, account: str, node_id: int) -> None:
        del self.nodes[node_id]


class Place:
    """A register of a folder with the key of c1, and pairs to replace it."""

    def __init__(self, folder: Path) -> None:
        self.nodes, self.state = folder / "nodes", State()
        self.nodes.mkdir()
        self.public = self.nodes / "c1.pub"
        self.old, self.new = (make_node_key(folder, name) for name in ("old", "new"))
        self.public.write_bytes(self.old.public.read_bytes())
        self.forgotten: list[str] = []
        self.register = NodeRegister(self.nodes, self.forgotten.append)
        self.register.state = self.state
        self.register.look()

    def known(self, pair: KeyPair) -> bool:
        self.register.look()
        key = public_key_to_bytes(load_ssh_public_key(pair.public.read_bytes()))
        return list(self.state.nodes.values()) == [key]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(NodeRegister, "LOOK_EVERY_S", 0.0)
    return Place(tmp_path)


class TestKeysThatChange:
    def test_a_key_that_is_written_over_in_place(self, place: Place) -> None:
        assert place.known(place.old)
        place.public.write_bytes(place.new.public.read_bytes())  # as cp does
        assert place.known(place.new)
        assert place.forgotten == ["c1"]

    def test_half_a_key_is_said_once_and_read_again_when_it_is_whole(
        self, place: Place, capsys: pytest.CaptureFixture[str]
    ) -> None:
        whole = place.new.public.read_bytes()
        place.public.write_bytes(whole[: len(whole) // 2])
        assert place.known(place.old)
        assert place.known(place.old)
        assert capsys.readouterr().out == f"{place.public}: must be a whole public key of OpenSSH\n"
        place.public.write_bytes(whole)
        assert place.known(place.new)

    def test_keys_that_could_not_be_read_are_read_again_though_no_file_changed(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place.public.write_bytes(place.new.public.read_bytes())
        with monkeypatch.context() as patch:
            patch.setattr(superlink_server, "read_bytes", fail)
            assert place.known(place.old)
        assert place.known(place.new)


def fail(path: Path) -> bytes:
    raise StagewiseError(f"{path}: cannot be read: too many open files")
