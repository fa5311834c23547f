"""Requests about federations: created, decided, told what came of it, looked at."""

from collections.abc import Sequence

import msgspec
from fastapi import APIRouter, Request, Response

from stagewise.client.wire import OutcomeReport, RoundRequest, RoundWeights, line_of_request
from stagewise.files import json_decoder
from stagewise.policies.registry import policy_names
from stagewise.serve.access import require
from stagewise.serve.federations import summary_of
from stagewise.serve.jobs import BoundsSettings
from stagewise.serve.live import require_ready
from stagewise.serve.refusals import Conflict
from stagewise.serve.requests import (
    AdminBody,
    Count,
    FederationName,
    First,
    Number,
    allowed,
    body_in_time,
    body_schema,
    decoded,
    found_or,
    job_answer,
    job_fields,
    json_answer,
    key_of,
    lines_answer,
    service_of,
)
from stagewise.serve.settings import FederationSettings, PlanSettings
from stagewise.serve.sources import FederationSource, checks, optima, tried
from stagewise.serve.store import Entry
from stagewise.serve.stored_plans import LIBRARY_FILE, PLAN_FILE
from stagewise.serve.trying import TryRequest

router = APIRouter(prefix="/v1", tags=["federations"])


class CreateRequest(FederationSettings, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A new federation: its scenario, by the digest of one sent before, and its policy."""

    scenario: str


# Routes are tried in their order: first the one that every round asks.
@router.post(
    "/federations/{name}/decisions",
    openapi_extra=body_schema(list[str] | RoundRequest, ["c0", "c1"]),
)
async def decide(request: Request, name: FederationName) -> Response:
    """Decide a round: a line of a rounds file comes in, a line of a decisions file goes out.

    The same `round`, or the same `Idempotency-Key`, gives the same decision however often it is asked.
    """
    service = service_of(request)
    allowed(request, "decide", name)
    key = key_of(request)
    with service.decisions.place(_key(name)) as place:
        body = await body_in_time(request, "decide")
        decided = await place.run(
            lambda: service.federations.cached(name).decide(_round_request(body), key)
        )
    if decided.new is not None:
        service.metrics.decided(decided.new)
    headers = {}  # which weights there are at /rounds/N
    if decided.weights.edge_weights is not None:
        headers["Stagewise-Edge-Weights"] = "yes"
    if decided.weights.client_weights is not None:
        headers["Stagewise-Client-Weights"] = "yes"
    return Response(decided.line + b"\n", 200, headers, "application/json")


@router.get("/methods")
def methods(request: Request) -> Response:
    """The names of all policies."""
    allowed(request, "read", None)
    return json_answer(policy_names())


@router.post(
    "/scenarios",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"type": "object"}},
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            },
        }
    },
)
def add_scenario(request: Request, body: AdminBody) -> Response:
    """Send a scenario: the content of its file, JSON, or the binary form as octets."""
    binary = request.headers.get("content-type", "").startswith("application/octet-stream")
    scenario = service_of(request).federations.add_scenario(body, binary)
    return json_answer(
        {
            "sha256": scenario.sha256,
            "clients": len(scenario.clients),
            "edges": len(scenario.edges),
            "links": len(scenario.links),
            "labels": scenario.labels,
        },
        201,
    )


@router.get("/federations")
def federations(request: Request) -> Response:
    """All that the caller may see."""
    service = service_of(request)
    caller = service.access.caller(request.headers.get("authorization"))
    rows = service.store.federations()
    return json_answer([summary_of(row) for row in rows if caller.sees(row.name)])


@router.post("/demo")
def demo(request: Request) -> Response:
    """A federation of 93 clients and 4 edges to try things on."""
    allowed(request, "admin")
    service = service_of(request)
    name = service.federations.create_demo()
    return json_answer(summary_of(service.store.federation(name)), 201)


@router.put("/federations/{name}", openapi_extra=body_schema(CreateRequest))
def create(request: Request, name: FederationName, body: AdminBody) -> Response:
    """Create a federation; its policy is made in a job. Again with the same content: the same one."""
    service = service_of(request)
    asked = decoded(body, CreateRequest)
    fields = {field: getattr(asked, field) for field in FederationSettings.__struct_fields__}
    new = service.federations.create(name, asked.scenario, FederationSettings(**fields))
    return json_answer(summary_of(service.store.federation(name)), 201 if new else 200)


@router.get("/federations/{name}")
def federation(request: Request, name: FederationName) -> Response:
    allowed(request, "read", name)
    return json_answer(summary_of(service_of(request).store.federation(name)))


@router.get("/federations/{name}/ready")
def ready(request: Request, name: FederationName) -> Response:
    """Whether its policy is made: 200, or 409 with `Retry-After` as long as it is being made."""
    allowed(request, "read", name)
    row = service_of(request).store.federation(name)
    require_ready(row)
    return json_answer({"state": row.state})


@router.delete("/federations/{name}")
def remove(request: Request, name: FederationName) -> Response:
    """Remove a federation with all its rounds and plans."""
    allowed(request, "admin", name)
    service_of(request).federations.remove(name)
    return Response(status_code=204)


@router.get("/federations/{name}/scenario")
def scenario(request: Request, name: FederationName) -> Response:
    """The file that was sent."""
    allowed(request, "read", name)
    store = service_of(request).store
    content, binary = store.scenario(store.federation(name).scenario_sha256)
    return Response(
        content, media_type="application/octet-stream" if binary else "application/json"
    )


@router.post(
    "/federations/{name}/probe", openapi_extra=body_schema(list[str] | RoundRequest, ["c0"])
)
async def probe(request: Request, name: FederationName) -> Response:
    """The clients whose losses the policy wants to know before it decides; null for none."""
    service = service_of(request)
    allowed(request, "decide", name)

    def probed(body: bytes) -> list[str] | None:
        live = service.federations.cached(name)
        found, ids = live.probe(_round_request(body)), live.scenario.clients.ids
        return None if found is None else [ids[number] for number in found.tolist()]

    with service.decisions.place(_key(name)) as place:
        body = await body_in_time(request, "decide")
        return json_answer(await place.run(lambda: probed(body)))


@router.get("/federations/{name}/decisions")
def decisions(
    request: Request, name: FederationName, first: First = 0, count: Count = 1000
) -> Response:
    """The lines of a decisions file."""
    return lines_answer([row.answer for row in _decided(request, name, first, count)])


@router.get("/federations/{name}/online")
def online(
    request: Request, name: FederationName, first: First = 0, count: Count = 1000
) -> Response:
    """The lines of a rounds file."""
    rows = _decided(request, name, first, count)
    asked = (json_decoder(RoundRequest).decode(row.asked) for row in rows)
    return lines_answer([line_of_request(one) for one in asked])


@router.get("/federations/{name}/rounds/{number}")
def one_round(request: Request, name: FederationName, number: Number) -> Response:
    """A round with what was asked, decided, weighed and told."""
    allowed(request, "read", name)
    store = service_of(request).store
    store.federation(name)
    row = found_or(
        store.entry(name, "decision", number),
        lambda: f"round {number}: must be one that is decided",
    )
    outcome = store.entry(name, "outcome", number)
    weights = RoundWeights.kept(row.more)
    return json_answer(
        {
            "round": msgspec.Raw(row.asked),
            "decision": msgspec.Raw(row.answer),
            **msgspec.structs.asdict(weights),
            "outcome": None if outcome is None else msgspec.Raw(outcome.asked),
        }
    )


@router.put(
    "/federations/{name}/outcomes/{number}", openapi_extra=body_schema(OutcomeReport, {}, False)
)
async def observe(request: Request, name: FederationName, number: Number) -> Response:
    """Tell what came of a round; nothing told means that all went as decided."""
    service = service_of(request)
    allowed(request, "decide", name)

    def observed(body: bytes) -> bool:
        return service.federations.cached(name).observe(number, decoded(body, OutcomeReport))

    with service.decisions.place(_key(name)) as place:
        body = await body_in_time(request, "decide")
        new = await place.run(lambda: observed(body))
    return json_answer({"round": number, "new": new})


@router.post("/federations/{name}/plans", openapi_extra=body_schema(PlanSettings, {}, False))
def order_plan(request: Request, name: FederationName, body: AdminBody) -> Response:
    """Plan again, in a job; the plan is followed from the first decision after it is ready."""
    service = service_of(request)
    settings = decoded(body, PlanSettings)
    known = summary_of(service.store.federation(name))
    if known.policy is not None and not known.policy.follows_plan:
        raise Conflict(f"federation {name!r}: its policy follows no plan")
    if known.settings.triggers:
        raise Conflict(f"federation {name!r}: plans again by itself: it must not have triggers")
    number = service.queue.order(name, "plan", key_of(request), msgspec.json.encode(settings))
    return job_answer(service.queue.job(number), 202)


@router.get("/federations/{name}/plans")
def plans(request: Request, name: FederationName) -> Response:
    """All plans, and which one is followed."""
    allowed(request, "read", name)
    store = service_of(request).store
    rows = store.plans(name)
    followed = store.followed(name, store.position(name).last) or 0
    return json_answer(
        [
            {
                "number": row.number,
                "created": row.created,
                "ordered_in": row.ordered_in,
                "followed": row.number == followed,
            }
            for row in rows
        ]
    )


@router.get(f"/federations/{{name}}/plans/{{number}}/{PLAN_FILE}")
def plan_file(request: Request, name: FederationName, number: Number) -> Response:
    """The plan's file."""
    allowed(request, "read", name)
    row = service_of(request).store.plan(name, number)
    return Response(row.content, media_type="application/json")


@router.get(f"/federations/{{name}}/plans/{{number}}/{LIBRARY_FILE}")
def library_file(request: Request, name: FederationName, number: Number) -> Response:
    """The file beside the plan's, where it names one."""
    allowed(request, "read", name)
    row = service_of(request).store.plan(name, number)
    content = found_or(row.library, lambda: f"plan {number}: has no library")
    return Response(content, media_type="application/octet-stream")


@router.get("/federations/{name}/checks")
def check_rounds(
    request: Request, name: FederationName, first: First = 0, count: Count = 100
) -> Response:
    """What `stagewise check` says: a line for each thing that is not true."""
    allowed(request, "read", name)
    return json_answer(
        checks(FederationSource(service_of(request).federations, name), first, count)
    )


@router.get("/federations/{name}/bounds")
def bounds(
    request: Request, name: FederationName, first: First = 0, count: Count = 1000
) -> Response:
    """The certified optima that are known."""
    allowed(request, "read", name)
    service = service_of(request)
    source = FederationSource(service.federations, name)
    return json_answer(optima(source, service.store, first, count))


@router.post("/federations/{name}/bounds")
def order_bounds(request: Request, name: FederationName) -> Response:
    """Find the certified optimum of every round so far, in a job."""
    allowed(request, "decide", name)
    service = service_of(request)
    rounds = service.store.federation(name).last_round
    settings = msgspec.json.encode(BoundsSettings(federation=name))
    number = service.queue.order(name, "bounds", f"up to round {rounds}", settings)
    return job_answer(service.queue.job(number), 202)


@router.post("/federations/{name}/try", openapi_extra=body_schema(TryRequest, {}, False))
async def what_if(request: Request, name: FederationName) -> Response:
    """Decide a round again with other limits, weights, estimates or outages; nothing is kept."""
    service = service_of(request)
    allowed(request, "read", name)
    source = FederationSource(service.federations, name)
    with service.tries.place(_key(name)) as place:
        body = await body_in_time(request, "read")
        return json_answer(await place.run(lambda: tried(source, decoded(body, TryRequest))))


@router.get("/jobs/{number}")
def job(request: Request, number: Number) -> Response:
    service = service_of(request)
    caller = service.access.caller(request.headers.get("authorization"))
    found = service.queue.job(number)
    require(caller, "read", found.federation)
    return job_answer(found)


@router.get("/jobs")
def jobs(request: Request) -> Response:
    """The newest hundred."""
    service = service_of(request)
    caller = service.access.caller(request.headers.get("authorization"))
    rows = service.queue.jobs()
    return json_answer([job_fields(row) for row in rows if caller.sees(row.federation)])


def _decided(request: Request, name: str, first: int, count: int) -> Sequence[Entry]:
    """The entries of decided rounds, for a caller who may read them."""
    allowed(request, "read", name)
    store = service_of(request).store
    store.federation(name)
    return store.decided(name, first, count)


def _key(name: str) -> str:
    """What requests of a federation wait under."""
    return f"federation {name!r}"


def _round_request(body: bytes) -> RoundRequest:
    asked: list[str] | RoundRequest = decoded(body, list[str] | RoundRequest)  # type: ignore[arg-type]
    if isinstance(asked, list):
        return RoundRequest(online=asked)
    return asked
