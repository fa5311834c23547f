"""The deployment's own certificate authority, the certificates of its servers, the keys of its nodes.

Private keys are created readable by their owner alone, and nothing is ever overwritten.
"""

import ipaddress
import os
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

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
from stagewise.files import explained

AUTHORITY, CERTIFICATE, KEY = "ca.pem", "server.pem", "server.key"
"""The authority's certificate, which is wherever it is trusted; a server's own, and its key."""

OWNER_FILE = 0o600
OWNER_FOLDER = 0o700
_PUBLIC_FILE = 0o644
_AUTHORITY_DAYS = 3650
_SERVER_DAYS = 825  # the longest that all TLS libraries accept
_CURVE = ec.SECP384R1()
_NODE_CURVE = ec.SECP256R1()  # of the curves that Flower takes the fastest: every request is signed

# A server is also reached by the processes beside it.
_LOOPBACK = ("127.0.0.1", "localhost")


class KeyPair(NamedTuple):
    """The files of a key, and of what others know it by: a certificate, or OpenSSH's public key."""

    public: Path
    private: Path


def make_authority(folder: Path) -> KeyPair:
    """Make a certificate authority in `folder`: `ca.pem` for everyone, `ca.key` for nobody else."""
    files = KeyPair(folder / AUTHORITY, folder / "ca.key")
    _certify(files, "stagewise deployment authority", _AUTHORITY_DAYS)
    return files


def issue_server_certificate(authority: KeyPair, folder: Path, hosts: Sequence[str]) -> KeyPair:
    """Put a certificate for `hosts` (names or addresses; loopback is always among them) in `folder`.

    The folder receives `server.pem`, `server.key` and a copy of the authority's `ca.pem`.
    """
    files, issuer = KeyPair(folder / CERTIFICATE, folder / KEY), _load(authority)
    names = list(dict.fromkeys((*hosts, *_LOOPBACK)))
    extensions = (
        x509.SubjectAlternativeName([_alternative(name) for name in names]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1].public_key()),
    )
    _certify(files, names[0], _SERVER_DAYS, issuer, extensions)
    trusted = folder / AUTHORITY
    if trusted.resolve() != authority.public.resolve():
        _create(trusted, authority.public.read_bytes(), _PUBLIC_FILE)
    return files


def make_node_key(folder: Path, name: str) -> KeyPair:
    """Make a SuperNode's `<name>.key` and `<name>.pub` in `folder`, in the form Flower reads."""
    files = KeyPair(folder / f"{name}.pub", folder / f"{name}.key")
    key = ec.generate_private_key(_NODE_CURVE)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    _create(files.private, private, OWNER_FILE)
    _create(files.public, public + b"\n", _PUBLIC_FILE)
    return files


def make_secret(path: Path) -> Path:
    """Make the file `path`: what two programs of one machine know each other by."""
    _create(path, secrets.token_bytes(32), OWNER_FILE)
    return path


def _load(authority: KeyPair) -> tuple[x509.Name, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(authority.public.read_bytes())
        key = load_pem_private_key(authority.private.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise StagewiseError(
            f"{authority.private.parent}: must hold a certificate authority: {one_line(str(error))}"
        ) from None
    known = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != known:
        raise StagewiseError(f"{authority.private}: must be the key of {authority.public}")
    return certificate.subject, key


def _certify(
    files: KeyPair,
    subject: str,
    days: int,
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
    extensions: Iterable[x509.ExtensionType] = (),
) -> None:
    """Make a key and its certificate; without an issuer it is an authority's, signed by itself."""
    key, ca, now = ec.generate_private_key(_CURVE), issuer is None, datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject[:64])])
    issuer_name, signer = issuer or (name, key)
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
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # for hosts whose clocks are behind
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca, path_length=0 if ca else None), critical=True)
        .add_extension(usage, critical=True)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(signer, hashes.SHA384()).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _create(files.private, private, OWNER_FILE)
    _create(files.public, certificate, _PUBLIC_FILE)


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise StagewiseError(f"host = {host!r}: must be an address or a name in ASCII") from None


def _create(path: Path, content: bytes, mode: int) -> None:
    """Write a new file that has `mode` before its first byte is there, in a folder of its owner's."""
    if path.is_symlink() or path.exists():
        raise StagewiseError(f"{path}: exists already; keys are never overwritten")
    with explained(path):
        path.parent.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
