"""The deployment's own certificate authority, the certificates of its servers, the keys of its nodes.

Private keys are created readable by their owner alone, and nothing is ever overwritten.
"""

import datetime
import ipaddress
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
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
_DAY = datetime.timedelta(days=1)
_AUTHORITY_LIFE = 3650 * _DAY
_SERVER_LIFE = 825 * _DAY  # the longest that all TLS libraries accept

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
    files = Authority.of(folder)
    _make_folder(folder)
    key = ec.generate_private_key(ec.SECP384R1())
    name = _name("stagewise deployment authority")
    signing = _key_usage(key_cert_sign=True, crl_sign=True, digital_signature=False)
    certificate = (
        _builder(name, name, key.public_key(), _AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signing, critical=True)
        .add_extension(_identifier(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    _create(files.key, _pem(key), OWNER_FILE)
    _create(files.certificate, certificate.public_bytes(Encoding.PEM), _PUBLIC_FILE)
    return files


def issue_server_certificate(
    authority: Authority, folder: Path, hosts: Sequence[str]
) -> ServerCertificate:
    """Put a certificate for `hosts` (names or addresses; loopback is always among them) in `folder`.

    The folder receives `server.pem`, `server.key` and a copy of the authority's `ca.pem`.
    """
    files = ServerCertificate.of(folder)
    issuer, signer = _load(authority)
    names = [_alternative(host) for host in dict.fromkeys((*hosts, *_LOOPBACK))]
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(
            _name(hosts[0] if hosts else _LOOPBACK[0]),
            issuer.subject,
            key.public_key(),
            _SERVER_LIFE,
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_identifier(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA384())
    )
    _make_folder(folder)
    _create(files.key, _pem(key), OWNER_FILE)
    _create(files.certificate, certificate.public_bytes(Encoding.PEM), _PUBLIC_FILE)
    if files.authority.resolve() != authority.certificate.resolve():
        _create(files.authority, authority.certificate.read_bytes(), _PUBLIC_FILE)
    return files


def make_node_key(folder: Path, name: str) -> NodeKey:
    """Make the key pair of the node `name` in `folder`: `<name>.key` and `<name>.pub`."""
    files = NodeKey.of(folder, name)
    _make_folder(folder)
    key = ec.generate_private_key(ec.SECP384R1())  # one of the NIST curves that Flower takes
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    _create(files.private, private, OWNER_FILE)
    _create(files.public, public + b"\n", _PUBLIC_FILE)
    return files


def make_secret(folder: Path, name: str) -> Path:
    """Make `<name>.secret` in `folder`: what two programs of one machine know each other by."""
    path = folder / f"{name}.secret"
    _make_folder(folder)
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


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    life: datetime.timedelta,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)  # for hosts whose clocks are behind
        .not_valid_after(now + life)
    )


def _key_usage(
    digital_signature: bool = True, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _identifier(key: ec.EllipticCurvePublicKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key)


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


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise StagewiseError(f"{folder}: cannot be made: {error.strerror or error}") from None


def _create(path: Path, content: bytes, mode: int) -> None:
    """Write a new file that has `mode` before its first byte is there."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise StagewiseError(f"{path}: exists already; keys are never overwritten") from None
    except OSError as error:
        raise StagewiseError(f"{path}: cannot be written: {error.strerror or error}") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
