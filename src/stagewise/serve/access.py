"""Who may do what: tokens, known by their digests, with scopes and federations."""

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Literal, get_args

import msgspec

from stagewise.errors import StagewiseError, shown
from stagewise.files import errors_at
from stagewise.serve.refusals import Forbidden, NoToken
from stagewise.toml import converted, read_toml

Scope = Literal["read", "decide", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_RANK = {scope: rank for rank, scope in enumerate(SCOPES)}
"""Each includes those before it."""


class Token(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A caller, as the file of tokens has it."""

    name: str
    sha256: str
    """Of the token: what is stolen from the file opens nothing."""
    scope: Scope
    federations: list[str] | None = None
    """Those it may see; None is all of them, and runs."""

    def sees(self, federation: str | None) -> bool:
        return self.federations is None or federation in self.federations


EVERYBODY = Token(name="loopback", sha256="", scope="admin")
"""Whoever is on this machine, where there are no tokens."""


class _TokensFile(msgspec.Struct, forbid_unknown_fields=True):
    token: list[Token]


class Access:
    """Decides by the header `Authorization: Bearer ...`; without tokens everybody is let in."""

    def __init__(self, tokens: list[Token] | None) -> None:
        self._tokens = tokens

    def caller(self, authorization: str | None) -> Token:
        """Who is calling."""
        if self._tokens is None:
            return EVERYBODY
        kind, _, secret = (authorization or "").partition(" ")
        if kind.lower() != "bearer" or not secret:
            raise NoToken("Authorization: must be 'Bearer' and a token")
        digest = token_digest(secret.strip())
        found = None
        for token in self._tokens:  # all of them, so that the time tells nothing
            if hmac.compare_digest(token.sha256, digest):
                found = token
        if found is None:
            raise NoToken("Authorization: the token must be one of those in the server's file")
        return found


def require(caller: Token, scope: Scope, federation: str | None) -> None:
    """Raise an error unless `caller` may; `federation` is None for what concerns them all."""
    if _RANK[caller.scope] < _RANK[scope]:
        raise Forbidden(
            f"token {shown(caller.name)}: has the scope {caller.scope!r}: must have {scope!r}"
        )
    if not caller.sees(federation):
        what = "all federations" if federation is None else f"federation {shown(federation)}"
        raise Forbidden(f"token {shown(caller.name)}: must be one for {what}")


def token_digest(secret: str) -> str:
    # Tokens are drawn from 256 bits: there is nothing to guess that would need a slow digest.
    return hashlib.sha256(secret.encode()).hexdigest()


def load_tokens(path: str | Path) -> list[Token]:
    """Read a file of tokens."""
    tokens = converted(read_toml(path), _TokensFile, f"{path}: ").token
    with errors_at(path):
        if len({token.name for token in tokens}) != len(tokens):
            raise StagewiseError("token: no name must occur twice")
    return tokens


def new_token(
    name: str, scope: str, federations: list[str] | None
) -> tuple[str, dict[str, object]]:
    """A token, which is told once, and what the file keeps of it."""
    if scope not in SCOPES:
        raise StagewiseError(f"scope = {shown(scope)}: must be one of {', '.join(SCOPES)}")
    if not name:
        raise StagewiseError("name: must not be empty")
    secret = secrets.token_urlsafe(32)
    kept: dict[str, object] = {"name": name, "sha256": token_digest(secret), "scope": scope}
    if federations:
        kept["federations"] = federations
    return secret, kept
