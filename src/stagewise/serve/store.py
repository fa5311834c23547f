"""All that is asked of the database: federations, their entries, plans and bounds."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Row, and_, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from stagewise.serve.database import Database
from stagewise.serve.refusals import Conflict, Unknown
from stagewise.serve.settings import FederationSettings, PolicyWords
from stagewise.serve.tables import BOUNDS, ENTRIES, FEDERATIONS, JOBS, PLANS, SCENARIOS

Entry = Row[Any]


def _or_before(name: str) -> Any:
    """A new value of a column of federations; null leaves the one before."""
    column = FEDERATIONS.c[name]
    return func.coalesce(bindparam(f"new_{name}", type_=column.type), column)


# What every decision asks.
_FEDERATION = FEDERATIONS.c.name == bindparam("federation_name")
_POSITION = select(FEDERATIONS.c.created, FEDERATIONS.c.last).where(_FEDERATION)
_ADVANCE = (
    update(FEDERATIONS)
    .where(
        and_(
            _FEDERATION,
            FEDERATIONS.c.created == bindparam("since"),
            FEDERATIONS.c.last == bindparam("at"),
        )
    )
    .values(
        last=bindparam("new_last"),
        last_round=_or_before("last_round"),
        snapshot_at=_or_before("snapshot_at"),
        snapshot=_or_before("snapshot"),
    )
)
_ADD_ENTRIES = insert(ENTRIES)


class Position(NamedTuple):
    """How far a federation is."""

    created: float
    """When it was: one that is removed and created again under its name is another one."""
    last: int
    """The number of its newest entry."""


class NewEntry(msgspec.Struct, frozen=True):
    """Something that happened in a federation and is to be kept."""

    kind: str
    round: int | None = None
    key: str | None = None
    plan: int | None = None
    asked: bytes | None = None
    answer: bytes | None = None
    more: bytes | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """The state of a policy after an entry."""

    at: int
    state: bytes


def _is(name: str, created: float) -> Any:
    """Whether a row is this very federation."""
    return and_(FEDERATIONS.c.name == name, FEDERATIONS.c.created == created)


class Store:
    """Keeps what was acknowledged; several processes may use one."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self._position = self.database.driver_statement(_POSITION)
        self._advance = self.database.driver_statement(_ADVANCE)
        self._add_entries = self.database.driver_statement(_ADD_ENTRIES)

    def close(self) -> None:
        self.database.close()

    def ready(self) -> None:
        """Raise an error if the database does not answer."""
        with self.database.reading() as connection:
            connection.execute(select(func.count()).select_from(FEDERATIONS)).scalar()

    # Scenarios

    def add_scenario(self, sha256: str, binary: bool, content: bytes) -> None:
        with self.database.writing() as connection:
            known = select(SCENARIOS.c.sha256).where(SCENARIOS.c.sha256 == sha256)
            if connection.execute(known).first() is None:
                row = {"sha256": sha256, "binary": binary, "content": content}
                connection.execute(insert(SCENARIOS).values(row))

    def scenario(self, sha256: str) -> tuple[bytes, bool]:
        """The file of a scenario, and whether it is the binary form."""
        with self.database.reading() as connection:
            found = connection.execute(
                select(SCENARIOS.c.content, SCENARIOS.c.binary).where(SCENARIOS.c.sha256 == sha256)
            ).first()
        if found is None:
            raise Unknown(f"scenario = {sha256!r}: must be the SHA-256 of one that was sent before")
        return found.content, found.binary

    # Federations

    def add_federation(self, name: str, sha256: str, settings: FederationSettings) -> bool:
        """Keep a new one and order its preparation; whether it is new and not the same again."""
        encoded = msgspec.json.encode(settings)
        now = time.time()
        row = {
            "name": name,
            "created": now,
            "scenario_sha256": sha256,
            "settings": encoded,
            "state": "preparing",
            "last": 0,
            "last_round": -1,
            "snapshot_at": 0,
        }
        try:
            with self.database.writing() as connection:
                connection.execute(insert(FEDERATIONS).values(row))
                connection.execute(
                    insert(JOBS).values(
                        federation=name,
                        kind="prepare",
                        key="prepare",
                        settings=b"{}",
                        state="queued",
                        progress=0.0,
                        created=now,
                    )
                )
        except IntegrityError:
            known = self.federation(name)
            if (known.scenario_sha256, known.settings) != (sha256, encoded):
                raise Conflict(
                    f"name = {name!r}: is taken by a federation with another scenario or other options"
                ) from None
            return False
        self.database.notify_workers()
        return True

    def federation(self, name: str) -> Entry:
        with self.database.reading() as connection:
            found = connection.execute(
                select(FEDERATIONS).where(FEDERATIONS.c.name == name)
            ).first()
        if found is None:
            raise Unknown(f"federation {name!r}: must be one that was created before")
        return found

    def position(self, name: str) -> Position:
        with self.database.driver_cursor(writes=False) as cursor:
            found = self._position.execute(cursor, {"federation_name": name}).fetchone()
        if found is None:
            raise Unknown(f"federation {name!r}: must be one that was created before")
        return Position(*found)

    def federations(self) -> Sequence[Entry]:
        columns = [c for c in FEDERATIONS.c if c.name != "snapshot"]
        with self.database.reading() as connection:
            return connection.execute(select(*columns).order_by(FEDERATIONS.c.created)).all()

    def set_state(
        self,
        name: str,
        created: float,
        state: str,
        words: PolicyWords | None = None,
        error: str | None = None,
    ) -> None:
        """Say how far its policy is; of one that was removed nothing is kept."""
        values: dict[str, Any] = {"state": state, "error": error}
        if words is not None:
            values["words"] = msgspec.json.encode(words)
        with self.database.writing() as connection:
            connection.execute(update(FEDERATIONS).where(_is(name, created)).values(values))

    def remove_federation(self, name: str) -> None:
        self.federation(name)
        with self.database.writing() as connection:
            for table in (ENTRIES, PLANS, JOBS):
                connection.execute(table.delete().where(table.c.federation == name))
            connection.execute(FEDERATIONS.delete().where(FEDERATIONS.c.name == name))

    # Entries

    def append(
        self, name: str, at: Position, entries: Sequence[NewEntry], snapshot: Snapshot | None
    ) -> bool:
        """Keep `entries` if the federation is still at `at`; otherwise nothing is kept."""
        now = time.time()
        rounds = [entry.round for entry in entries if entry.kind == "decision"]
        values = {
            "federation_name": name,
            "since": at.created,
            "at": at.last,
            "new_last": at.last + len(entries),
            "new_last_round": rounds[-1] if rounds else None,
            "new_snapshot_at": None if snapshot is None else snapshot.at,
            "new_snapshot": None if snapshot is None else snapshot.state,
        }
        rows = [
            {
                "federation": name,
                "number": at.last + 1 + place,
                "created": now,
                **msgspec.structs.asdict(entry),
            }
            for place, entry in enumerate(entries)
        ]
        with self.database.driver_cursor(writes=True) as cursor:
            if self._advance.execute(cursor, values).rowcount == 0:
                return False
            self._add_entries.execute_many(cursor, rows)
        return True

    def entries_after(self, name: str, number: int, limit: int | None = None) -> Sequence[Entry]:
        with self.database.reading() as connection:
            return connection.execute(
                select(ENTRIES)
                .where(and_(ENTRIES.c.federation == name, ENTRIES.c.number > number))
                .order_by(ENTRIES.c.number)
                .limit(limit)
            ).all()

    def entry(self, name: str, kind: str, round_index: int) -> Entry | None:
        return self._entry(name, kind, ENTRIES.c.round == round_index)

    def entry_by_key(self, name: str, kind: str, key: str) -> Entry | None:
        return self._entry(name, kind, ENTRIES.c.key == key)

    def _entry(self, name: str, kind: str, which: Any) -> Entry | None:
        with self.database.reading() as connection:
            return connection.execute(
                select(ENTRIES).where(
                    and_(ENTRIES.c.federation == name, ENTRIES.c.kind == kind, which)
                )
            ).first()

    def decided(self, name: str, first: int, count: int) -> Sequence[Entry]:
        """The decisions of so many rounds from number `first` on."""
        with self.database.reading() as connection:
            return connection.execute(
                select(ENTRIES)
                .where(
                    and_(
                        ENTRIES.c.federation == name,
                        ENTRIES.c.kind == "decision",
                        ENTRIES.c.round >= first,
                    )
                )
                .order_by(ENTRIES.c.round)
                .limit(count)
            ).all()

    def followed(self, name: str, up_to: int) -> int | None:
        """The newest plan that was taken up by an entry of a number up to `up_to`."""
        with self.database.reading() as connection:
            found: int | None = connection.execute(
                select(ENTRIES.c.plan)
                .where(
                    and_(
                        ENTRIES.c.federation == name,
                        ENTRIES.c.kind == "plan",
                        ENTRIES.c.number <= up_to,
                    )
                )
                .order_by(ENTRIES.c.number.desc())
                .limit(1)
            ).scalar()
        return found

    # Plans

    def add_plan(
        self,
        name: str,
        created: float,
        content: bytes,
        library: bytes | None,
        sha256: str,
        ordered_in: int | None = None,
    ) -> int:
        """Keep a plan; its number. One that the policy ordered before is not kept twice."""
        with self.database.writing() as connection:
            # Two processes must not count at once: whoever changes this row first does.
            held = connection.execute(
                update(FEDERATIONS).where(_is(name, created)).values(created=FEDERATIONS.c.created)
            )
            if held.rowcount == 0:
                raise Unknown(f"federation {name!r}: was removed while a plan was made for it")
            if ordered_in is not None:
                ordered = and_(PLANS.c.federation == name, PLANS.c.ordered_in == ordered_in)
                known = connection.execute(select(PLANS.c.number).where(ordered)).scalar()
                if known is not None:
                    return int(known)
            newest = connection.execute(
                select(func.max(PLANS.c.number)).where(PLANS.c.federation == name)
            ).scalar()
            number = 0 if newest is None else int(newest) + 1
            connection.execute(
                insert(PLANS).values(
                    federation=name,
                    number=number,
                    created=time.time(),
                    ordered_in=ordered_in,
                    scenario_sha256=sha256,
                    content=content,
                    library=library,
                )
            )
        return number

    def plan(self, name: str, number: int) -> Entry:
        which = and_(PLANS.c.federation == name, PLANS.c.number == number)
        with self.database.reading() as connection:
            found = connection.execute(select(PLANS).where(which)).first()
        if found is None:
            raise Unknown(f"federation {name!r}: has no plan {number}")
        return found

    def ordered_plan(self, name: str, ordered_in: int) -> Entry | None:
        which = and_(PLANS.c.federation == name, PLANS.c.ordered_in == ordered_in)
        with self.database.reading() as connection:
            return connection.execute(select(PLANS).where(which)).first()

    def plans(self, name: str) -> Sequence[Entry]:
        """All but their content."""
        columns = [c for c in PLANS.c if c.name not in ("content", "library")]
        with self.database.reading() as connection:
            return connection.execute(
                select(*columns).where(PLANS.c.federation == name).order_by(PLANS.c.number)
            ).all()

    # Bounds

    def add_bound(
        self, sha256: str, round_sha256: str, cost: float | None, lower_bound: float | None
    ) -> None:
        which = and_(BOUNDS.c.scenario_sha256 == sha256, BOUNDS.c.round_sha256 == round_sha256)
        row = {
            "scenario_sha256": sha256,
            "round_sha256": round_sha256,
            "cost": cost,
            "lower_bound": lower_bound,
        }
        with self.database.writing() as connection:
            connection.execute(BOUNDS.delete().where(which))
            connection.execute(insert(BOUNDS).values(row))

    def has_bounds(self, sha256: str) -> bool:
        """Whether a bound of any round of a scenario is known."""
        known = select(BOUNDS.c.round_sha256).where(BOUNDS.c.scenario_sha256 == sha256).limit(1)
        with self.database.reading() as connection:
            return connection.execute(known).first() is not None

    def bounds(self, sha256: str, rounds: Sequence[str]) -> dict[str, Entry]:
        """The bounds that are known, by the digest of the round."""
        found: dict[str, Entry] = {}
        with self.database.reading() as connection:
            for start in range(0, len(rounds), 500):
                part = rounds[start : start + 500]
                which = and_(BOUNDS.c.scenario_sha256 == sha256, BOUNDS.c.round_sha256.in_(part))
                rows = connection.execute(select(BOUNDS).where(which)).all()
                found |= {row.round_sha256: row for row in rows}
        return found
