"""The register of a server's nodes: keys that change while it runs, and who signed a request."""

from base64 import b64decode, b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")

from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

from stagewise.deploy.certificates import KeyPair, make_node_key
from stagewise.deploy.flower_api import superlink_server
from stagewise.deploy.flower_api.superlink_server import NodeRegister
from stagewise.deploy.request_filter import Refused
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
        return list(self.state.nodes.values()) == [public_bytes(pair)]

    def headers(self, signed_by: KeyPair, age_s: float) -> dict[str, str]:
        """Those of a request of c1 that was signed so long ago, by this key."""
        timestamp = (now() - timedelta(seconds=age_s)).isoformat()
        private = load_ssh_private_key(signed_by.private.read_bytes(), None)
        signature = sign_message(private, timestamp.encode())
        return {
            FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(public_bytes(self.old)).decode(),
            FLEET_HTTP_SIGNATURE_HEADER: b64encode(signature).decode(),
            TIMESTAMP_HEADER: timestamp,
        }

    def refusal(self, signed_by: KeyPair, age_s: float) -> tuple[str, str]:
        """Who is refused, and why."""
        with pytest.raises(Refused) as caught:
            self.register.signed_by(self.headers(signed_by, age_s))
        return caught.value.who, caught.value.why


def public_bytes(pair: KeyPair) -> bytes:
    return public_key_to_bytes(load_ssh_public_key(pair.public.read_bytes()))


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


class TestWhoSigned:
    def test_a_node_that_signs_now(self, place: Place) -> None:
        member, _ = place.register.signed_by(place.headers(place.old, 0.0))
        assert member.name == "c1"

    def test_another_signature_of_the_same_request_is_the_same_request(self, place: Place) -> None:
        """(r, s) and (r, -s) are both valid: whoever sees one can make the other."""
        headers = place.headers(place.old, 0.0)
        r, s = decode_dss_signature(b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER]))
        order = load_ssh_public_key(place.old.public.read_bytes()).curve.group_order
        other = b64encode(encode_dss_signature(r, order - s)).decode()
        again = {**headers, FLEET_HTTP_SIGNATURE_HEADER: other}
        first, second = (place.register.signed_by(h) for h in (headers, again))
        assert first == second
        assert place.register.signed_by(place.headers(place.old, 0.0)) != first

    @pytest.mark.parametrize("age_s", [-1000.0, 0.0, 1000.0])
    def test_who_has_not_the_key_is_not_named(self, place: Place, age_s: float) -> None:
        assert place.refusal(place.new, age_s) == ("", "a signature that is not its own")

    def test_all_other_times_are_counted_as_one_reason(self, place: Place) -> None:
        found = {place.refusal(place.old, age_s) for age_s in (-1000.0, 1000.0, 2000.0, 3e9)}
        assert found == {("c1", "signed too early or too late, by its clock")}
