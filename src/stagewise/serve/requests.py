"""What handlers of requests share: bodies, answers, names, and who is calling."""

import asyncio
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Depends, Path, Query, Request, Response

from stagewise.files import decode_json
from stagewise.serve.access import Scope, Token, require
from stagewise.serve.refusals import Refusal, TooLarge, TooSlow, Unknown
from stagewise.serve.service import Service
from stagewise.serve.sources import LARGEST_PART
from stagewise.world.checks import LARGEST_COUNT

T = TypeVar("T")

LARGEST_BODY: dict[Scope, int] = {"read": 4 * 2**20, "decide": 64 * 2**20, "admin": 64 * 2**20}
"""Bytes that are read of a request that needs a scope."""
_BODY_S = 60.0
"""How long a body may take while its request holds one of the few places of a federation or run."""
_KEY = re.compile(r"[\x21-\x7e]{1,128}")

Number = Annotated[int, Path(ge=0, le=LARGEST_COUNT)]
First = Annotated[int, Query(ge=0, le=LARGEST_COUNT, description="The first round.")]
Count = Annotated[int, Query(ge=1, le=LARGEST_PART, description="How many rounds.")]
RunName = Annotated[str, Query(min_length=1, max_length=500, description="The path of a run.")]
FederationName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def allowed(request: Request, scope: Scope, federation: str | None = None) -> Token:
    """Who is calling, if they may."""
    caller = service_of(request).access.caller(request.headers.get("authorization"))
    require(caller, scope, federation)
    return caller


async def _body_of(request: Request, scope: Scope) -> bytes:
    """The body, up to the largest that is taken of callers with this scope."""
    largest = LARGEST_BODY[scope]
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > largest:
        raise TooLarge(f"body: is of {announced} bytes: must be of at most {largest}")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > largest:
            raise TooLarge(f"body: is larger than {largest} bytes: must be smaller")
        parts.append(part)
    return b"".join(parts)


async def body_in_time(request: Request, scope: Scope) -> bytes:
    """The body, where others may have to wait until it is there."""
    try:
        async with asyncio.timeout(_BODY_S):
            return await _body_of(request, scope)
    except TimeoutError:
        raise TooSlow(f"body: must be sent within {_BODY_S:g} seconds") from None


async def _admin_body(request: Request) -> bytes:
    """The body of an administrator's request; of another caller nothing is read."""
    allowed(request, "admin", request.path_params.get("name"))
    return await _body_of(request, "admin")


AdminBody = Annotated[bytes, Depends(_admin_body)]
"""The body of a request, for callers who may change the federation that it names, if any."""


def decoded(body: bytes, kind: type[T]) -> T:
    """The body as a `kind`; the error names field, value and rule. An empty one is an empty object."""
    return decode_json(body or b"{}", kind, "body")


def key_of(request: Request) -> str | None:
    """What makes the same request twice one request."""
    key = request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise Refusal(
            "Idempotency-Key: must be 1 to 128 printable characters of ASCII, without spaces"
        )
    return key


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def job_fields(row: Any) -> dict[str, Any]:
    """What is told of a job."""
    names = ("number", "federation", "kind", "state", "progress", "result", "error", "created")
    return {name: getattr(row, name) for name in names}


def job_answer(row: Any, status: int = 200) -> Response:
    return json_answer(job_fields(row), status)


def lines_answer(lines: list[bytes]) -> Response:
    content = b"".join(line + b"\n" for line in lines)
    return Response(content, media_type="application/jsonl")


def body_schema(kind: Any, example: Any = None, required: bool = True) -> dict[str, Any]:
    """What OpenAPI says of a body that is a `kind`."""
    (schema,), components = msgspec.json.schema_components(
        [kind], ref_template="#/components/schemas/{name}"
    )
    content: dict[str, Any] = {"schema": schema}
    if example is not None:
        content["example"] = example
    return {
        "requestBody": {"required": required, "content": {"application/json": content}},
        SCHEMAS: components,
    }


SCHEMAS = "x-stagewise-schemas"
"""Where the parts of a schema wait until the whole document is made."""


def gather_schemas(document: dict[str, Any]) -> dict[str, Any]:
    """Put the schemas of all bodies where OpenAPI wants them."""
    gathered = document.setdefault("components", {}).setdefault("schemas", {})
    for path in document["paths"].values():
        for operation in path.values():
            gathered |= operation.pop(SCHEMAS, {})
    return document


def found_or(found: T | None, what: Callable[[], str]) -> T:
    if found is None:
        raise Unknown(what())
    return found
