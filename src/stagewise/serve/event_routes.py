"""What happens, as it happens: server-sent events of a federation or a run."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from stagewise.errors import one_line
from stagewise.runs.checkpoint_files import CHECKPOINT
from stagewise.runs.directory import ROUNDS
from stagewise.serve.job_queue import ACTIVE, JobQueue
from stagewise.serve.refusals import Refusal
from stagewise.serve.requests import FederationName, RunName, allowed, job_fields, service_of
from stagewise.serve.runs_folder import RunsFolder
from stagewise.world.checks import LARGEST_COUNT

router = APIRouter(prefix="/v1", tags=["events"])

_LOOK_S = 0.25
_LOOK_AT_RUN_S = 0.5
"""Less often: a run shares its machine with whoever looks at it."""
_ALIVE_S = 15.0
_AT_ONCE = 200

After = Annotated[int | None, Query(ge=-1, le=LARGEST_COUNT, description="The last one known.")]
Events = Callable[[int], list[tuple[int | None, str, bytes]]]
"""Of a number, the events after it: number, kind, data. One without a number is not told again."""


@router.get("/federations/{name}/events")
async def federation_events(
    request: Request, name: FederationName, after: After = None
) -> StreamingResponse:
    """Every entry of a federation: decisions, outcomes, plans that are followed; by its number.

    Also how far its jobs are, as `job`, without a number: at first those not over, and the newest.
    """
    allowed(request, "read", name)
    store = service_of(request).store
    await asyncio.to_thread(store.federation, name)
    jobs = jobs_of(service_of(request).queue, name)

    def newer(last: int) -> list[tuple[int | None, str, bytes]]:
        rows = store.entries_after(name, last, _AT_ONCE)
        return [*jobs(), *((row.number, row.kind, _data(row)) for row in rows)]

    return _stream(request, newer, 0 if after is None else after)


@router.get("/run/events")
async def run_events(request: Request, run: RunName, after: After = None) -> StreamingResponse:
    """Every complete round of a run: its line of `rounds.jsonl`, by its number."""
    allowed(request, "read")
    folder = service_of(request).runs
    await asyncio.to_thread(folder.file, run, ROUNDS)
    newer = rounds_of_run(folder, run)
    return _stream(request, newer, -1 if after is None else after, _LOOK_AT_RUN_S)


def jobs_of(queue: JobQueue, federation: str) -> Callable[[], list[tuple[None, str, bytes]]]:
    """What is new of the jobs of a federation since it was last asked.

    At first those that are not over, and the newest: it may have ended between two streams.
    """
    told: dict[int, tuple[str, float]] | None = None

    def newer() -> list[tuple[None, str, bytes]]:
        nonlocal told
        rows = queue.of_federation(federation)
        before = told
        told = {row.number: (row.state, row.progress) for row in rows}
        if before is None:
            new = [row for row in rows if row.state in ACTIVE or row is rows[-1]]
        else:
            new = [row for row in rows if before.get(row.number) != told[row.number]]
        return [(None, "job", msgspec.json.encode(job_fields(row))) for row in new]

    return newer


def rounds_of_run(folder: RunsFolder, run: str) -> Events:
    """The complete rounds of a run; files are read again only when another one is.

    Of a run that went back, the newest round is told again: those before it may be others now.
    """
    seen: tuple[int, int] | None = None
    told: bytes | None = None  # the line of the last one known, as it was

    def newer(last: int) -> list[tuple[int | None, str, bytes]]:
        nonlocal seen, told
        try:
            found = (folder.folder(run) / CHECKPOINT).stat()
        except FileNotFoundError:  # before the first
            return []
        # Taken before the lines are read, so that none is missed.
        newest = found.st_mtime_ns, found.st_ino
        if newest == seen:
            return []
        lines = folder.content(run, ROUNDS).splitlines()
        seen = newest
        before, told = told, lines[-1] if lines else None
        went_back = last >= len(lines) or (before is not None and before != lines[last])
        first = max(0, len(lines) - 1) if went_back else last + 1
        return [(n, "round", lines[n]) for n in range(first, len(lines))]

    return newer


def _stream(
    request: Request, newer: Events, after: int, look_s: float = _LOOK_S
) -> StreamingResponse:
    known = request.headers.get("last-event-id")
    if known is not None:
        if not known.isascii() or not known.isdigit() or len(known) > 10:
            raise Refusal(f"Last-Event-ID = {one_line(repr(known), 80)}: must be a number")
        after = int(known)
    streams = service_of(request).metrics.streams

    async def events() -> AsyncIterator[bytes]:
        last, quiet = after, 0.0
        streams.inc()
        try:
            yield b"retry: 1000\n\n"
            while not (request.app.state.stopping() or await request.is_disconnected()):
                found = await asyncio.to_thread(newer, last)
                for number, kind, data in found:
                    last, id_ = (last, b"") if number is None else (number, b"id: %d\n" % number)
                    yield b"%sevent: %s\ndata: %s\n\n" % (id_, kind.encode(), data)
                quiet = 0.0 if found else quiet + look_s
                if quiet >= _ALIVE_S:
                    quiet = 0.0
                    yield b": nothing new\n\n"
                if len(found) < _AT_ONCE:
                    await asyncio.sleep(look_s)
        finally:
            streams.dec()

    headers = {"Cache-Control": "no-store"}
    return StreamingResponse(events(), media_type="text/event-stream", headers=headers)


def _data(row: Any) -> bytes:
    fields: dict[str, Any] = {"round": row.round, "created": row.created}
    if row.kind == "decision":
        fields["decision"] = msgspec.Raw(row.answer)
    elif row.kind == "plan":
        fields["plan"] = row.plan
    return msgspec.json.encode(fields)
