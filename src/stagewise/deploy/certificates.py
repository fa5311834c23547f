"""The deployment's own certificate authority, the certificates of its servers, the keys of its nodes.

Private keys are created readable by their owner alone, and nothing is ever overwritten.
"""

import ipaddress
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stagewise.errors import StagewiseError, one_line

OWNER_FILE = 0o600
OWNER_FOLDER = 0o700
_PUBLIC_FILE = 0o644
_AUTHORITY_DAYS = 3650
_SERVER_DAYS = 825  # the longest that all TLS libraries accept
_CURVE = ec.SECP384R1()  # one of the NIST curves that Flower takes

# A server is also reached by the processes beside it.
_LOOPBACK = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Authority:
    """The files of a certificate authority; its key never leaves the folder it was made in."""

    certificate: Path
    key: Path

    @classmethod
    def of(cls, folder: Path) -> "Authority":
        """The authority that `make_authority` made in `folder`."""
        return cls(folder / "ca.pem", folder / "ca.key")


@dataclass(frozen=True)
class ServerCertificate:
    """What a server needs for TLS: the authority's certificate, its own, and its key."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, folder: Path) -> "ServerCertificate":
        """The certificate that `issue_server_certificate` put in `folder`."""
        return cls(folder / "ca.pem", folder / "server.pem", folder / "server.key")


@dataclass(frozen=True)
class NodeKey:
    """A SuperNode's key pair in OpenSSH's form, as `flower-supernode` and `flwr supernode` read it."""

    private: Path
    public: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> "NodeKey":
        """The key that `make_node_key` made in `folder` under `name`."""
        return cls(folder / f"{name}.key", folder / f"{name}.pub")


def make_authority(folder: Path) -> Authority:
    """Make a certificate authority in `folder`: `ca.pem` for everyone, `ca.key` for nobody else."""
    files, key = Authority.of(folder), ec.generate_private_key(_CURVE)
    subject = _name("stagewise deployment authority")
    certificate = _signed(subject, key, _AUTHORITY_DAYS, subject, key, _extensions(ca=True))
    _create(files.key, _pem(key), OWNER_FILE)
    _create(files.certificate, certificate, _PUBLIC_FILE)
    return files


def issue_server_certificate(
    authority: Authority, folder: Path, hosts: Sequence[str]
) -> ServerCertificate:
    """Put a certificate for `hosts` (names or addresses; loopback is always among them) in `folder`.

    The folder receives `server.pem`, `server.key` and a copy of the authority's `ca.pem`.
    """
    files, key = ServerCertificate.of(folder), ec.generate_private_key(_CURVE)
    issuer, signer = _load(authority)
    names = [_alternative(host) for host in dict.fromkeys((*hosts, *_LOOPBACK))]
    extensions = [
        *_extensions(ca=False),
        (x509.SubjectAlternativeName(names), False),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ]
    subject = _name((*hosts, *_LOOPBACK)[0])
    certificate = _signed(subject, key, _SERVER_DAYS, issuer.subject, signer, extensions)
    _create(files.key, _pem(key), OWNER_FILE)
    _create(files.certificate, certificate, _PUBLIC_FILE)
    if files.authority.resolve() != authority.certificate.resolve():
        _create(files.authority, authority.certificate.read_bytes(), _PUBLIC_FILE)
    return files


def make_node_key(folder: Path, name: str) -> NodeKey:
    """Make the key pair of the node `name` in `folder`: `<name>.key` and `<name>.pub`."""
    files, key = NodeKey.of(folder, name), ec.generate_private_key(_CURVE)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    _create(files.private, private, OWNER_FILE)
    _create(files.public, public + b"\n", _PUBLIC_FILE)
    return files


def make_secret(folder: Path, name: str) -> Path:
    """Make `<name>.secret` in `folder`: what two programs of one machine know each other by."""
    path = folder / f"{name}.secret"
    _create(path, secrets.token_bytes(32), OWNER_FILE)
    return path


def _load(authority: Authority) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
        key = load_pem_private_key(authority.key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise StagewiseError(
            f"{authority.key.parent}: must hold a certificate authority: {one_line(str(error))}"
        ) from None
    if (
        not isinstance(key, ec.EllipticCurvePrivateKey)
        or key.public_key() != certificate.public_key()
    ):
        raise StagewiseError(f"{authority.key}: must be the key of {authority.certificate}")
    return certificate, key


def _signed(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: int,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
) -> bytes:
    """A certificate in PEM; each extension with whether it is critical."""
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # for hosts whose clocks are behind
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(signer, hashes.SHA384()).public_bytes(Encoding.PEM)


def _extensions(ca: bool) -> list[tuple[x509.ExtensionType, bool]]:
    """What a certificate is for: to sign others, or to prove who a server is."""
    usage = x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return [(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), True), (usage, True)]


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise StagewiseError(f"host = {host!r}: must be an address or a name in ASCII") from None


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _create(path: Path, content: bytes, mode: int) -> None:
    """Write a new file that has `mode` before its first byte is there, in a folder of its owner's."""
    try:
        path.parent.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        rule = f"cannot be written: {error.strerror or error}"
        if path.is_symlink() or path.exists():
            rule = "exists already; keys are never overwritten"
        raise StagewiseError(f"{path}: {rule}") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
