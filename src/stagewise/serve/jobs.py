"""Jobs carried out beside requests: policies made, plans made again, bounds proven."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import msgspec

from stagewise.errors import StagewiseError, one_line
from stagewise.files import json_decoder
from stagewise.plan_a.planners import plan as make_plan
from stagewise.progress import ProgressCallback
from stagewise.serve.bounds import keep_bound, known_bounds, optimum
from stagewise.serve.federations import Federations
from stagewise.serve.job_queue import BEAT_S, JobQueue
from stagewise.serve.refusals import Conflict
from stagewise.serve.runs_folder import RunsFolder
from stagewise.serve.settings import FederationSettings, PlanSettings
from stagewise.serve.sources import LARGEST_PART, FederationSource, RunSource, Source
from stagewise.serve.store import Entry
from stagewise.serve.stored_plans import keep_plan, plan_of
from stagewise.serve.traces import Traces
from stagewise.serve.trying import TryRequest, changed_scenario

_LOG = logging.getLogger("stagewise.serve")
_IDLE_S = 1.0
_STOP_S = 2.0
_TELL_S = 0.25
_KINDS = (("prepare", "plan"), ("bounds",))
"""A thread each: no proof keeps a plan waiting."""


CarryOut = Callable[[Entry, ProgressCallback], str | None]
"""Does what a job asks for, and says how far it is."""


class BoundsSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Whose rounds are to be solved to optimality, and how long for each."""

    federation: str | None = None
    run: str | None = None
    seconds: float = 10.0


class Workers:
    """The threads that carry jobs out."""

    def __init__(
        self, queue: JobQueue, federations: Federations, runs: RunsFolder, traces: Traces
    ) -> None:
        self._queue, self._federations, self._runs = queue, federations, runs
        self._traces = traces
        self._end = Event()
        self._threads = [
            Thread(target=self._work, args=(kinds,), name=f"jobs-{kinds[0]}", daemon=True)
            for kinds in _KINDS
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Take up no more jobs; one under way is left to whoever comes next."""
        self._end.set()
        self._queue.notify_workers()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_STOP_S)

    def _work(self, kinds: tuple[str, ...]) -> None:
        carry_out: dict[str, CarryOut] = {
            "prepare": self._prepare,
            "plan": self._plan,
            "bounds": self._bounds,
        }
        ordered = self._queue.work_event()
        while not self._end.is_set():
            try:
                ordered.clear()
                job = self._queue.take(kinds)
                if job is None:
                    ordered.wait(_IDLE_S)
                    continue
                span = self._traces.span(job.kind, job=job.number, federation=job.federation or "")
                with span, self._reporting(job) as progress:
                    self._ended(job, carry_out[job.kind], progress)
            except Exception as error:  # the database is away: it may come back
                _LOG.error("jobs: %s", one_line(str(error)))
                self._end.wait(_IDLE_S)

    def _ended(self, job: Entry, carry_out: CarryOut, progress: ProgressCallback) -> None:
        try:
            result, error = carry_out(job, progress), None
        except StagewiseError as mistake:
            result, error = None, one_line(str(mistake))
        except Exception as failure:
            _LOG.error("job %d: %s: %s", job.number, type(failure).__name__, one_line(str(failure)))
            result, error = None, "failed; the log says why"
        if self._end.is_set() and result == "":
            return
        if error is not None and job.kind == "prepare":
            self._federations.store.set_state(job.federation, job.created, "failed", error=error)
        self._queue.end(job, result, error)

    @contextmanager
    def _reporting(self, job: Entry) -> Iterator[ProgressCallback]:
        """Say every now and then that somebody is at it, and how far; the work never waits for that."""
        over, share = Event(), 0.0

        def done(now: float) -> None:
            nonlocal share
            share = now

        def tell() -> None:
            told, beat = 0.0, time.monotonic()
            while not over.wait(_TELL_S):
                if share == told and time.monotonic() < beat + BEAT_S:
                    continue
                told, beat = share, time.monotonic()
                try:
                    self._queue.tell(job, told)
                except Exception as error:
                    _LOG.error("job %d: %s", job.number, one_line(str(error)))

        thread = Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield done
        finally:
            over.set()
            thread.join()

    def _prepare(self, job: Entry, progress: ProgressCallback) -> None:
        row = self._federations.store.federation(job.federation)
        settings = json_decoder(FederationSettings).decode(row.settings)
        live = self._federations.get(job.federation)
        self._queue.require(job)
        words = live.prepare(settings, progress)
        # A federation and the job that prepares it are created at once.
        self._federations.store.set_state(job.federation, job.created, "ready", words)

    def _plan(self, job: Entry, progress: ProgressCallback) -> str:
        """A plan as `stagewise plan` makes it, followed from the next decision on."""
        settings = json_decoder(PlanSettings).decode(job.settings)
        live = self._federations.get(job.federation)
        self._queue.require(job)  # as it is there, this federation is the one it was ordered for
        source = FederationSource(self._federations, job.federation)
        newer = TryRequest(online_probability=settings.online_probability)
        scenario = changed_scenario(live.scenario, newer)
        method = settings.method
        if method is None:
            in_force = source.plan(live.scenario)
            if in_force is None:
                raise Conflict(f"federation {job.federation!r}: its policy follows no plan")
            method = in_force.method
        made = make_plan(
            scenario,
            method=method,
            risk=settings.risk,
            seed=settings.seed,
            seconds=settings.seconds,
            progress=progress,
        )
        number = keep_plan(self._federations.store, live.name, live.created, made)
        # What can be loaded can be followed.
        plan_of(self._federations.store.plan(job.federation, number), live.scenario)
        live.adopt(number)
        return str(number)

    def _bounds(self, job: Entry, progress: ProgressCallback) -> str:
        settings = json_decoder(BoundsSettings).decode(job.settings)
        source: Source
        if settings.federation is not None:
            source = FederationSource(self._federations, settings.federation)
        else:
            source = RunSource(self._runs, settings.run or "")
        newest, proven = source.newest(), 0
        for first in range(0, newest + 1, LARGEST_PART):
            rounds = source.rounds(first, LARGEST_PART)[0]
            known = {bound.round for bound in known_bounds(self._federations.store, rounds)}
            for round_ in rounds:
                if self._end.is_set():
                    return ""  # whoever comes next goes on from here
                if round_.index not in known:
                    bound = optimum(round_, settings.seconds)
                    keep_bound(self._federations.store, round_, bound)
                    proven += 1
                progress((round_.index + 1) / (newest + 1))
        return str(proven)
