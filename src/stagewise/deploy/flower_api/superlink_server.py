"""A SuperLink in this process behind its request filter; the register of nodes that may connect."""

from __future__ import annotations

import datetime
import hashlib
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.common.constant import (
    HEARTBEAT_MIN_INTERVAL,
    NOOP_ACCOUNT_NAME,
    NOOP_FLWR_AID,
    SYSTEM_TIME_TOLERANCE,
    TIMESTAMP_HEADER,
    TIMESTAMP_TOLERANCE,
)
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from prometheus_client import CollectorRegistry

from stagewise.deploy.flower_api.server_run import control_token, metrics_token
from stagewise.deploy.limits import save_refused
from stagewise.deploy.presence import Contacts
from stagewise.deploy.request_filter import Member, Refused, RequestFilter
from stagewise.errors import StagewiseError
from stagewise.files import read_bytes


class NodeRegister:
    """Who may connect: a public key for each name, in a folder that may change meanwhile."""

    LOOK_EVERY_S = 1.0

    def __init__(self, folder: Path, forget: Callable[[str], None]) -> None:
        self._folder, self._forget = folder, forget
        self._members: dict[bytes, tuple[Member, ec.EllipticCurvePublicKey]] = {}
        self._looked = -1.0
        self._taken_in: set[tuple[str | int, ...]] | None = None
        self._said = ""
        self.state: Any = None
        """Flower's LinkState, once there is one."""

    def look(self) -> None:
        """Read the keys again if they changed.

        If they cannot be read, it is said, the old ones stay, and they are read again next time.
        """
        if time.monotonic() - self._looked < self.LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        try:
            files = self._files()
            if files != self._taken_in:
                self.read()
                self._taken_in, self._said = files, ""
        except (OSError, StagewiseError) as error:  # one may be deleted this very moment
            if str(error) != self._said:
                self._said = str(error)
                print(error, flush=True)

    def _files(self) -> set[tuple[str | int, ...]]:
        """What differs once a key is added, deleted, replaced or written over in place."""
        found = [(path.name, path.stat()) for path in self._folder.glob("*.pub")]
        return {(name, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for name, at in found}

    def read(self) -> None:
        """Take in keys that have come, and let go of those that are there no longer."""
        keys: dict[bytes, tuple[str, ec.EllipticCurvePublicKey]] = {}
        for path in sorted(self._folder.glob("*.pub")):
            content = read_bytes(path)
            try:
                key = load_ssh_public_key(content)
            except (ValueError, UnsupportedAlgorithm):
                raise StagewiseError(f"{path}: must be a whole public key of OpenSSH") from None
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise StagewiseError(f"{path}: must be a key on an elliptic curve")
            known = keys.setdefault(public_key_to_bytes(key), (path.stem, key))
            if known[0] != path.stem:
                raise StagewiseError(f"{path}: must not be the key of {known[0]}, too")
        for public in self._members.keys() - keys.keys():
            member, _ = self._members.pop(public)
            self.state.delete_node(NOOP_FLWR_AID, member.node_id)
            self._forget(member.name)
        for public in keys.keys() - self._members.keys():
            name, key = keys[public]
            node_id = self.state.create_node(
                NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, public, HEARTBEAT_MIN_INTERVAL, name=name
            )
            self._members[public] = Member(name, node_id), key

    def signed_by(self, headers: dict[str, str]) -> tuple[Member, bytes]:
        """Who signed a request, and what tells it from all others; refused if it is nobody, or not now.

        What is signed is the time, to the microsecond. The signature itself tells nothing apart: from
        one of them anybody can make a second that is as good.
        """
        self.look()
        try:
            public = b64decode(headers[FLEET_HTTP_PUBLIC_KEY_HEADER], validate=True)
            signature = b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER], validate=True)
            timestamp = headers[TIMESTAMP_HEADER]
            age_s = (now() - datetime.datetime.fromisoformat(timestamp)).total_seconds()
        except (KeyError, ValueError, TypeError):
            raise Refused(401, "not signed by a node") from None
        if public not in self._members:
            raise Refused(401, "signed with a key that is not known")
        member, key = self._members[public]
        try:
            key.verify(signature, timestamp.encode("ascii"), ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, UnicodeEncodeError):
            raise Refused(401, "a signature that is not its own") from None
        # Last, so that nobody is named who did not sign.
        if not -SYSTEM_TIME_TOLERANCE < age_s < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE:
            raise Refused(401, "signed too early or too late, by its clock", member.name)
        return member, hashlib.sha256(public + timestamp.encode()).digest()[:16]

    def senders(self, body: bytes) -> list[tuple[int, bool]]:
        """Of messages that are pushed: from which node each is, and whether it is a reply."""
        request = PushMessagesRequest()
        try:
            request.ParseFromString(body)
        except Exception:
            raise Refused(400, "a body that is no message") from None
        metadata = [message.metadata for message in request.messages_list]
        return [(each.src_node_id, bool(each.reply_to_message_id)) for each in metadata]

    def make_room(self, member: Member) -> None:
        """A node connects: Flower would refuse it as long as it thinks an earlier one is there."""
        self.state.deactivate_node(member.node_id)

    def node_ids(self) -> dict[str, int]:
        return {member.name: member.node_id for member, _ in self._members.values()}


def run_superlink(
    options: Sequence[str],
    nodes: Path,
    secret: bytes,
    object_bytes: int,
    contacts: Contacts,
    registry: CollectorRegistry,
) -> None:
    """Serve as `flower-superlink` with these options would, behind a request filter; until it is ended.

    Who may connect is in the folder `nodes`; `contacts` are those who are in touch,
    `registry` has what `/metrics` shows.
    """
    uvicorn, program, create_app, extensions, middleware = preload()
    register = NodeRegister(nodes, contacts.forget)
    settings = {
        "site": register,
        "token": control_token(secret),
        "metrics_token": metrics_token(secret),
        "contacts": contacts,
        "registry": registry,
        "record": lambda refused: save_refused(refused, nodes.parent),
    }
    filtered = middleware(RequestFilter, object_bytes=object_bytes, **settings)
    extensions.get_middleware = lambda: (filtered,)
    sys.argv = ["flower-superlink", *options]
    config = program._parse_superlink_lifespan_config()
    app = create_app(config, program.SuperLinkLifespan)
    register.state = app.state.linkstate_factory.state()
    register.read()
    uvicorn.run(
        app,
        host=config.host,
        port=config.port,
        ssl_keyfile=config.ssl_keyfile,
        ssl_certfile=config.ssl_certfile,
        log_level="warning",
        access_log=False,
        proxy_headers=False,  # a header could say that a request came from elsewhere than it did
        timeout_graceful_shutdown=1,
    )


def preload() -> tuple[Any, Any, Any, Any, Any]:
    """What serving takes, imported: seconds that a process has to spend once before it forks others."""
    import uvicorn
    from flwr.superlink import extensions
    from flwr.superlink.main import create_app
    from starlette.middleware import Middleware

    # A function of the same name hides the module.
    program = import_module("flwr.superlink.cli.flower_superlink")
    return uvicorn, program, create_app, extensions, Middleware
