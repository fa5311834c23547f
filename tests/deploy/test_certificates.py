import os
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest

from stagewise.errors import StagewiseError

pytest.importorskip("cryptography", reason="the deploy extra is not installed")

from stagewise.deploy import certificates
from stagewise.deploy.certificates import (
    KeyPair,
    issue_server_certificate,
    make_authority,
    make_node_key,
    make_secret,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def handshake(server: KeyPair, authority: Path, name: str) -> str:
    """The subject of the certificate that a strict client accepts from a server under `name`."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server.public, server.private)
    asking = ssl.create_default_context(cafile=str(authority))
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with serving.wrap_socket(theirs, server_side=True) as stream:
                stream.recv(1)
        except OSError:  # the client went away
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with asking.wrap_socket(ours, server_hostname=name) as stream:
            peer = stream.getpeercert()
        assert peer is not None
        return dict(pair[0] for pair in peer["subject"])["commonName"]  # type: ignore[misc]
    finally:
        ours.close()
        thread.join()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return make_authority(tmp_path_factory.mktemp("site") / "authority")


class TestServerCertificates:
    @pytest.mark.parametrize(
        "name", ["10.0.0.1", "cloud.example", "fd00::1", "127.0.0.1", "localhost"]
    )
    def test_a_client_that_knows_the_authority_accepts_the_server_under_each_name(
        self, authority: KeyPair, tmp_path: Path, name: str
    ) -> None:
        hosts = ["10.0.0.1", "cloud.example", "fd00::1"]
        server = issue_server_certificate(authority, tmp_path / "cloud", hosts)
        assert handshake(server, tmp_path / "cloud" / "ca.pem", name) == "10.0.0.1"

    def test_another_name_is_refused(self, authority: KeyPair, tmp_path: Path) -> None:
        server = issue_server_certificate(authority, tmp_path / "cloud", ["10.0.0.1"])
        with pytest.raises(ssl.SSLCertVerificationError, match=r"10\.0\.0\.2"):
            handshake(server, authority.public, "10.0.0.2")

    def test_a_certificate_of_another_authority_is_refused(
        self, authority: KeyPair, tmp_path: Path
    ) -> None:
        stranger = make_authority(tmp_path / "stranger")
        server = issue_server_certificate(stranger, tmp_path / "cloud", ["10.0.0.1"])
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(server, authority.public, "10.0.0.1")

    def test_the_folder_has_no_trace_of_the_authoritys_key(
        self, authority: KeyPair, tmp_path: Path
    ) -> None:
        issue_server_certificate(authority, tmp_path / "cloud", ["10.0.0.1"])
        secret = authority.private.read_bytes()
        files = sorted((tmp_path / "cloud").iterdir())
        assert [file.name for file in files] == ["ca.pem", "server.key", "server.pem"]
        assert all(file.read_bytes() != secret for file in files)

    def test_a_server_cannot_issue_certificates(self, authority: KeyPair, tmp_path: Path) -> None:
        server = issue_server_certificate(authority, tmp_path / "cloud", ["10.0.0.1"])
        forged = issue_server_certificate(server, tmp_path / "forged", ["10.0.0.1"])
        chain = forged.public.read_bytes() + server.public.read_bytes()
        forged.public.write_bytes(chain)
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(forged, authority.public, "10.0.0.1")

    def test_the_key_of_another_authority_is_an_error_of_one_line(
        self, authority: KeyPair, tmp_path: Path
    ) -> None:
        stranger = make_authority(tmp_path / "stranger")
        with pytest.raises(StagewiseError, match="must be the key of"):
            issue_server_certificate(
                KeyPair(authority.public, stranger.private), tmp_path / "cloud", ["10.0.0.1"]
            )
        assert not (tmp_path / "cloud").exists()

    def test_without_an_authority(self, tmp_path: Path) -> None:
        with pytest.raises(StagewiseError, match="must hold a certificate authority") as caught:
            issue_server_certificate(
                KeyPair(tmp_path / "ca.pem", tmp_path / "ca.key"), tmp_path / "cloud", ["10.0.0.1"]
            )
        assert "\n" not in str(caught.value)


class TestNodeKeys:
    def test_flower_reads_both_halves(self, tmp_path: Path) -> None:
        pytest.importorskip("flwr", reason="the deploy extra is not installed")
        from argparse import Namespace

        from flwr.cli.supernode.register import try_load_public_key
        from flwr.supercore.primitives.asymmetric import bytes_to_public_key
        from flwr.supernode.cli.flower_supernode import _try_setup_client_authentication

        files = make_node_key(tmp_path, "c0")
        arguments = Namespace(
            auth_supernode_private_key=str(files.private), auth_supernode_public_key=None
        )
        pair = _try_setup_client_authentication(arguments)
        assert pair is not None
        assert pair[1] == bytes_to_public_key(try_load_public_key(files.public))

    def test_each_node_has_a_key_of_its_own(self, tmp_path: Path) -> None:
        first, second = make_node_key(tmp_path, "c0"), make_node_key(tmp_path, "c1")
        assert first.public.read_bytes() != second.public.read_bytes()
        assert first == KeyPair(tmp_path / "c0.pub", tmp_path / "c0.key")


def test_secrets_are_long_and_never_the_same(tmp_path: Path) -> None:
    first, second = (
        make_secret(tmp_path / "superlink.secret"),
        make_secret(tmp_path / "node.secret"),
    )
    assert len(first.read_bytes()) == len(second.read_bytes()) == 32
    assert first.read_bytes() != second.read_bytes()


class TestFiles:
    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
    def test_private_files_are_their_owners_from_their_first_moment(
        self, tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: dict[str, int] = {}
        really_open = os.open

        def watched(path: Path, flags: int, mode: int = 0o777) -> int:
            handle = really_open(path, flags, mode)
            seen[Path(path).name] = stat.S_IMODE(os.fstat(handle).st_mode)
            return handle

        monkeypatch.setattr(certificates.os, "open", watched)
        before = os.umask(umask)
        try:
            authority = make_authority(tmp_path / "a" / "authority")
            server = issue_server_certificate(authority, tmp_path / "cloud", ["10.0.0.1"])
            node = make_node_key(tmp_path / "keys", "c0")
            secret = make_secret(tmp_path / "secrets" / "node.secret")
        finally:
            os.umask(before)
        for path in (authority.private, server.private, node.private, secret):
            assert (seen[path.name], mode(path)) == (0o600, 0o600)
        for folder in ("a/authority", "cloud", "keys", "secrets"):
            assert mode(tmp_path / folder) == 0o700

    def test_nothing_is_overwritten(self, authority: KeyPair, tmp_path: Path) -> None:
        before = authority.private.read_bytes()
        with pytest.raises(StagewiseError, match="exists already"):
            make_authority(authority.private.parent)
        assert authority.private.read_bytes() == before
        make_node_key(tmp_path, "c0")
        with pytest.raises(StagewiseError, match="exists already"):
            make_node_key(tmp_path, "c0")

    def test_a_full_disk_leaves_no_part_of_a_key(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(certificates.os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            make_node_key(tmp_path, "c0")
        assert list(tmp_path.iterdir()) == []

    def test_a_link_where_a_key_goes_is_not_followed(self, tmp_path: Path) -> None:
        target = tmp_path / "elsewhere"
        (tmp_path / "c0.key").symlink_to(target)
        with pytest.raises(StagewiseError, match="exists already"):
            make_node_key(tmp_path, "c0")
        assert not target.exists()
