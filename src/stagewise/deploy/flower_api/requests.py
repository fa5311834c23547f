"""What both sides of Flower's requests have in common: connections, headers, objects, errors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
from flwr.app import Context, Error, Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ObjectTree, PullObjectRequest, PushObjectRequest
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from stagewise.deploy.request_filter import LAST, SEEN, TOKEN
from stagewise.errors import StagewiseError, one_line
from stagewise.fates import Fate

HEARTBEAT_S = 5.0
"""How often to say that a run or a node is there still."""

WAIT_S = 5
"""How long a request for news is left open; a whole number of seconds."""

App = Callable[[Message, Context], Message]

_FAILED_APPS = (ErrorCode.CLIENT_APP_RAISED_EXCEPTION, ErrorCode.LOAD_CLIENT_APP_EXCEPTION)
_RUN_LOST = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND)


def is_final(error: Exception) -> bool:
    """Whether the server answered that it will not; without an answer it may come back."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500


def is_run_lost(error: Exception) -> bool:
    """Whether the SuperLink does not know the run any more, after a pause or a start of its own."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code in _RUN_LOST


def fate_of(error: Error) -> Fate:
    """What a reply without content makes of its update: rejected if the ClientApp itself failed."""
    return "rejected" if error.code in _FAILED_APPS else "lost"


class Headers:
    """Adds headers to every request, and `next` to the next one; keeps the version of its response."""

    def __init__(self, **always: str) -> None:
        self.always, self.next, self.version = always, dict[str, str](), ""

    def intercept(self, context: Any, call_next: Callable[[Any], httpx.Response]) -> httpx.Response:
        context.request.headers.update({TOKEN: self.always["token"]} if self.always else {})
        context.request.headers.update(self.next)
        self.next = {}
        response = call_next(context)
        self.version = response.headers.get(SEEN, "")
        return response


@contextlib.contextmanager
def at_superlink(address: str) -> Iterator[None]:
    """Whatever goes wrong inside is an error of one line: Flower raises whatever it meets."""
    try:
        yield
    except StagewiseError:
        raise
    except Exception as error:
        reason = one_line(str(error)) or type(error).__name__
        raise StagewiseError(f"{address}: the SuperLink: {reason}") from None


@contextlib.contextmanager
def beating(beat: Callable[[], object]) -> Iterator[None]:
    """Call `beat` every few seconds while the block runs; what fails shows at the next message."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(HEARTBEAT_S):
            with contextlib.suppress(Exception):
                beat()

    threading.Thread(target=run, daemon=True, name="stagewise-heartbeat").start()
    try:
        yield
    finally:
        done.set()


def new_client(kind: Any, place: tuple[str, bytes], *interceptors: Any) -> Any:
    version = RuntimeVersionHttpInterceptor(component_name="stagewise")
    return kind.from_server_address(place[0], False, place[1], [version, *interceptors])


@contextlib.contextmanager
def connected(kind: Any, place: tuple[str, bytes], *interceptors: Any) -> Iterator[Any]:
    with contextlib.closing(new_client(kind, place, *interceptors)) as client:
        yield client


def deflated(messages: Sequence[Message]) -> tuple[dict[str, Any], list[ObjectTree], list[Any]]:
    """What there is to send of messages: their objects by id, the trees of these, the heads."""
    objects, trees, heads = {}, [], []
    with no_object_id_recompute():
        for message in messages:
            message.metadata.__dict__["_message_id"] = message.object_id
            objects.update(get_all_nested_objects(message))
            trees.append(get_object_tree(message))
            empty = remove_content_from_message(message) if message.has_content() else message
            heads.append(message_to_proto(empty))
    return objects, trees, heads


def upload(
    client: Any, headers: Headers, objects: dict[str, Any], ids: list[str], place: dict[str, Any]
) -> None:
    """Send the objects that are wanted; the last one says so, and wakes those who wait."""
    for number, object_id in enumerate(ids, 1):
        content = objects[object_id].deflate()
        headers.next = {LAST: "1"} if number == len(ids) else {}
        client.PushObject(PushObjectRequest(object_id=object_id, object_content=content, **place))


def download(
    client: Any, missing: list[str], objects: dict[str, bytes], place: dict[str, Any]
) -> bool:
    """Fetch what is there; whether nothing is missing any more."""
    while missing:
        found = client.PullObject(PullObjectRequest(object_id=missing[-1], **place))
        if not found.object_found:
            raise LookupError("its upload broke off")
        if not found.object_available:
            return False
        objects[missing.pop()] = found.object_content
    return True
