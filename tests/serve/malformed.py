"""Requests that no client should send, drawn at random; what comes back must be a 4xx of one line."""

import json
import random
from typing import Any

_ODD: list[Any] = [
    None, True, -1, 0, 1.5, 1e308, 2**31, 2**63, 2**200, "", "c0", "\x00", "\ud800", "ä" * 300, "c0\nc1",
    [], {}, [[]], [None], ["c0", "c0"], ["zz"], {"a": 1}, [["c0"]], "../../etc/passwd", "'; drop x",
]  # fmt: skip
_FIELDS = (
    *("online", "round", "down", "links", "cpu_hz", "losses", "surcharge", "clients", "edges"),
    *("accuracy", "limits", "weights", "online_probability", "scenario", "policy", "seed"),
    *("seconds", "remedy", "replan_every", "method", "risk", "kld_max", "unknown"),
)
_NAMES = ("a", "zz", "%00", "a%2Fb", "..", "x" * 100, "é", "a b", "-")
_PATHS = (
    *("/v1/federations/{n}", "/v1/federations/{n}/decisions", "/v1/federations/{n}/outcomes/{i}"),
    *("/v1/federations/{n}/probe", "/v1/federations/{n}/plans", "/v1/federations/{n}/try"),
    *("/v1/federations/{n}/bounds", "/v1/federations/{n}/rounds/{i}", "/v1/scenarios"),
    *("/v1/federations/{n}/checks?first={i}&count={i}", "/v1/run?run={n}", "/v1/run/try?run={n}"),
    *("/v1/run/files/{n}?run={n}", "/v1/jobs/{i}", "/v1/{n}", "/page/{n}"),
    "/v1/federations/{n}/plans/{i}/plan.json",
)
_NUMBERS = ("0", "-1", "1.5", "99999999999999999999", "x", "", "%00", "1e3")


def value(draw: random.Random, depth: int = 0) -> Any:
    if depth < 3 and draw.random() < 0.4:
        names = draw.sample(_FIELDS, draw.randint(0, 4))
        return {name: value(draw, depth + 1) for name in names}
    return draw.choice(_ODD)


def body(draw: random.Random) -> bytes:
    """Often JSON of a wrong shape, sometimes no JSON at all."""
    kind = draw.random()
    if kind < 0.1:
        return draw.randbytes(draw.randint(0, 60))
    if kind < 0.15:
        return b"[" * draw.randint(1, 3000)
    text = json.dumps(value(draw)).encode()
    if kind < 0.25:
        text = text[: draw.randint(0, len(text))]
    return text


def request(draw: random.Random) -> tuple[str, str, bytes, dict[str, str]]:
    """Method, path, body, headers."""
    path = draw.choice(_PATHS).format(n=draw.choice(_NAMES), i=draw.choice(_NUMBERS))
    headers = {}
    if draw.random() < 0.2:
        headers["Idempotency-Key"] = draw.choice(["", "x" * 500, "a b", "ok", "\xff"])
    if draw.random() < 0.1:
        headers["Content-Type"] = draw.choice(["text/plain", "application/octet-stream", "x"])
    method = draw.choice(["GET", "POST", "PUT", "PATCH", "POST", "PUT", "HEAD", "OPTIONS"])
    return method, path.replace(" ", "%20").replace("é", "%C3%A9"), body(draw), headers
