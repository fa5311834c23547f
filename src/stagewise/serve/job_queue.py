"""Work that takes longer than a request: ordered, taken up by one process, and kept in sight.

A job whose process was killed is taken up by another, or by the same one started again.
"""

import time
import uuid
from collections.abc import Sequence
from threading import Event
from typing import Any

from sqlalchemy import ColumnElement, and_, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from stagewise.serve.database import Database
from stagewise.serve.refusals import Conflict, TooMany, Unknown
from stagewise.serve.store import Entry
from stagewise.serve.tables import JOBS

BEAT_S = 2.0
_DEAD_S = 5 * BEAT_S
_WAITING = 64
ACTIVE = ("queued", "running")
"""The states of a job that is not over."""


class JobQueue:
    """The jobs of all processes on one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = uuid.uuid4().hex

    def order(self, federation: str | None, kind: str, key: str | None, settings: bytes) -> int:
        """Order a job; the number of the one that was ordered under this key, if any was."""
        row = {
            "federation": federation,
            "kind": kind,
            "key": key,
            "settings": settings,
            "state": "queued",
            "progress": 0.0,
            "created": time.time(),
        }
        try:
            with self._database.writing() as connection:
                known = _ordered(connection, federation, kind, key)
                if known is None:
                    _require_room(connection, kind)
                    result = connection.execute(insert(JOBS).values(row))
        except IntegrityError:  # another process was first
            with self._database.reading() as connection:
                known = _ordered(connection, federation, kind, key)
            if known is None:
                raise
        if known is None:
            self._database.notify_workers()
            return int(result.inserted_primary_key[0])  # type: ignore[index]
        if known.settings != settings:
            raise Conflict(f"{kind}: was ordered with other settings under this key")
        return int(known.number)

    def work_event(self) -> Event:
        """What is set when a job is ordered in this process."""
        event = Event()
        self._database.work_events.append(event)
        return event

    def notify_workers(self) -> None:
        """Wake whoever waits for a job in this process."""
        self._database.notify_workers()

    def job(self, number: int) -> Entry:
        with self._database.reading() as connection:
            found = connection.execute(select(JOBS).where(JOBS.c.number == number)).first()
        if found is None:
            raise Unknown(f"job {number}: must be one that was ordered before")
        return found

    def jobs(self) -> Sequence[Entry]:
        """The newest hundred, the newest first."""
        asked = select(JOBS).order_by(JOBS.c.number.desc()).limit(100)
        with self._database.reading() as connection:
            return connection.execute(asked).all()

    def of_federation(self, name: str) -> Sequence[Entry]:
        """Its newest ten, the oldest first."""
        asked = select(JOBS).where(JOBS.c.federation == name).order_by(JOBS.c.number.desc())
        with self._database.reading() as connection:
            return connection.execute(asked.limit(10)).all()[::-1]

    def take(self, kinds: Sequence[str]) -> Entry | None:
        """The oldest job that nobody is at, now ours."""
        free = or_(
            JOBS.c.state == "queued",
            and_(JOBS.c.state == "running", JOBS.c.beat < time.time() - _DEAD_S),
        )
        oldest = select(JOBS).where(and_(JOBS.c.kind.in_(kinds), free)).order_by(JOBS.c.number)
        with self._database.reading() as connection:
            if connection.execute(oldest.limit(1)).first() is None:
                return None
        with self._database.writing() as connection:
            found = connection.execute(oldest.limit(1).with_for_update(skip_locked=True)).first()
            if found is not None:
                self._set(connection, found, state="running", progress=0.0)
        return found

    def require(self, job: Entry) -> None:
        """Raise an error if the job is no longer there, as its federation was removed."""
        if self.job(job.number).created != job.created:
            raise Unknown(f"job {job.number}: was removed")

    def tell(self, job: Entry, progress: float) -> None:
        """Say how far it is, and that whoever is at it is alive; of one that is over, nothing."""
        with self._database.writing() as connection:
            self._set(connection, job, JOBS.c.state == "running", progress=progress)

    def end(self, job: Entry, result: str | None = None, error: str | None = None) -> None:
        state = "done" if error is None else "failed"
        with self._database.writing() as connection:
            self._set(connection, job, state=state, progress=1.0, result=result, error=error)

    def _set(
        self, connection: Any, job: Entry, *conditions: ColumnElement[bool], **values: Any
    ) -> None:
        values |= {"beat": time.time(), "owner": self._owner}
        # SQLite gives the number of a removed job to the next one.
        same = and_(JOBS.c.number == job.number, JOBS.c.created == job.created, *conditions)
        connection.execute(update(JOBS).where(same).values(values))


def _ordered(connection: Any, federation: str | None, kind: str, key: str | None) -> Entry | None:
    """The job that was ordered under a key; one of a run that failed may be ordered again."""
    which = and_(
        JOBS.c.federation.is_not_distinct_from(federation),
        JOBS.c.kind == kind,
        JOBS.c.key == key,
        or_(JOBS.c.federation.is_not(None), JOBS.c.state != "failed"),
    )
    found: Entry | None = None
    if key is not None:
        found = connection.execute(select(JOBS).where(which)).first()
    return found


def _require_room(connection: Any, kind: str) -> None:
    queued = and_(JOBS.c.state == "queued", JOBS.c.kind == kind)
    waiting = connection.execute(select(func.count()).where(queued)).scalar()
    if waiting >= _WAITING:
        raise TooMany(f"{kind}: {waiting} wait already: must be fewer than {_WAITING}")
