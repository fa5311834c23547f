"""HTTP to the service: one connection that is opened again, and the same request again after a loss."""

import ssl
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Lock
from typing import Any
from urllib.parse import SplitResult

import msgspec

from stagewise.errors import StagewiseError, one_line

_TIMEOUT_S = 300.0
_AGAIN = (409, 429, 503)
"""Answers that say when to ask again."""


class ServiceError(StagewiseError):
    """The service refused a request; the message is its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Connection:
    """Asks one service. Every request may be sent twice: the service gives the same answer."""

    def __init__(
        self, address: SplitResult, token: str | None, patience_s: float, cafile: str | None
    ) -> None:
        self._address, self._token, self._patience_s = address, token, patience_s
        self._context = ssl.create_default_context(cafile=cafile) if cafile else None
        self._lock = Lock()
        self._open: HTTPConnection | None = None

    def ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[bytes, dict[str, str]]:
        """The answer and its headers; a service that is away is awaited for `patience_s` seconds."""
        give_up = time.monotonic() + self._patience_s
        pause = 0.05
        while True:
            try:
                with self._lock:
                    answer, content = self._once(method, path, body, kind)
            except (OSError, HTTPException) as error:
                self.close()
                if time.monotonic() + pause > give_up:
                    reason = one_line(str(error) or repr(error))
                    raise StagewiseError(
                        f"{self._address.geturl()}: does not answer: {reason}"
                    ) from None
            else:
                wait = answer.headers.get("Retry-After")
                late = time.monotonic() + pause > give_up
                if answer.status < 400:
                    return content, {name.lower(): value for name, value in answer.getheaders()}
                if answer.status not in _AGAIN or wait is None or late:
                    raise ServiceError(answer.status, _message(answer.status, content))
            time.sleep(pause)
            pause = min(0.5, 2 * pause)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _once(
        self, method: str, path: str, body: bytes | None, kind: str
    ) -> tuple[HTTPResponse, bytes]:
        if self._open is None:
            host, port = self._address.hostname or "", self._address.port
            self._open = (
                HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=self._context)
                if self._address.scheme == "https"
                else HTTPConnection(host, port, timeout=_TIMEOUT_S)
            )
        headers = {"Content-Type": kind}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        self._open.request(method, path, body, headers)
        answer = self._open.getresponse()
        return answer, answer.read()


def _message(status: int, content: bytes) -> str:
    try:
        told: Any = msgspec.json.decode(content)
        return f"the service refuses ({status}): {told['error']}"
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"the service answers {status}"
