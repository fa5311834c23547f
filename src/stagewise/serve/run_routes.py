"""Requests about runs under the server's folder; a run is named by its path in it."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from stagewise.serve.jobs import BoundsSettings
from stagewise.serve.requests import (
    Count,
    First,
    RunName,
    allowed,
    body_in_time,
    body_schema,
    decoded,
    job_answer,
    json_answer,
    service_of,
)
from stagewise.serve.sources import RunSource, checks, optima, tried
from stagewise.serve.trying import Tried, TryRequest
from stagewise.world.checks import LARGEST_COUNT

router = APIRouter(prefix="/v1", tags=["runs"])

Lines = Annotated[
    int | None, Query(ge=1, le=LARGEST_COUNT, description="How many; all if left out.")
]


@router.get("/runs")
def runs(request: Request) -> Response:
    """All runs, with how far each is."""
    allowed(request, "read")
    folder = service_of(request).runs
    return json_answer([folder.summary(name) for name in folder.names()])


@router.get("/run")
def run(request: Request, run: RunName) -> Response:
    """How far a run is."""
    allowed(request, "read")
    return json_answer(service_of(request).runs.summary(run))


@router.get("/run/files/{file}")
def file(
    request: Request, file: str, run: RunName, first: First = 0, count: Lines = None
) -> Response:
    """A file of a run as it is; of lines those of complete rounds."""
    allowed(request, "read")
    content = service_of(request).runs.content(run, file, first, count)
    kinds = {"json": "application/json", "jsonl": "application/jsonl", "toml": "application/toml"}
    return Response(content, media_type=kinds[file.rpartition(".")[2]])


@router.get("/run/checks")
def check_rounds(request: Request, run: RunName, first: First = 0, count: Count = 100) -> Response:
    """What `stagewise check` says: a line for each thing that is not true."""
    allowed(request, "read")
    return json_answer(checks(RunSource(service_of(request).runs, run), first, count))


@router.get("/run/bounds")
def bounds(request: Request, run: RunName, first: First = 0, count: Count = 1000) -> Response:
    """The certified optima that are known."""
    allowed(request, "read")
    service = service_of(request)
    source = RunSource(service.runs, run)
    return json_answer(optima(source, service.store, first, count))


@router.post("/run/bounds")
def order_bounds(request: Request, run: RunName) -> Response:
    """Find the certified optimum of every round so far, in a job."""
    allowed(request, "decide")
    service = service_of(request)
    rounds = RunSource(service.runs, run).newest()
    settings = msgspec.json.encode(BoundsSettings(run=run))
    number = service.queue.order(None, "bounds", f"{run} up to round {rounds}", settings)
    return job_answer(service.queue.job(number), 202)


@router.post("/run/try", openapi_extra=body_schema(TryRequest, {}, False))
async def what_if(request: Request, run: RunName) -> Response:
    """Decide a round again with other limits, weights, estimates or outages; nothing is kept."""
    service = service_of(request)
    allowed(request, "read")

    def answered(body: bytes) -> Tried:
        return tried(RunSource(service.runs, run), decoded(body, TryRequest))

    with service.tries.place(f"run {run!r}") as place:
        body = await body_in_time(request, "read")
        return json_answer(await place.run(lambda: answered(body)))
