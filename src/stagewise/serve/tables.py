"""What the service keeps, as tables; the same on SQLite and on PostgreSQL."""

from collections.abc import Callable

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
)

from stagewise.errors import StagewiseError

METADATA = MetaData()

SCHEMA = Table("schema_version", METADATA, Column("version", Integer, primary_key=True))

SCENARIOS = Table(
    "scenarios",
    METADATA,
    Column("sha256", Text, primary_key=True),
    Column("binary", Boolean, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

FEDERATIONS = Table(
    "federations",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("created", Float, nullable=False),
    Column("scenario_sha256", Text, nullable=False),
    Column("settings", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),  # preparing, ready or failed
    Column("error", Text),
    Column("words", LargeBinary),  # what the policy says of itself, once it is made
    Column("last", Integer, nullable=False),  # the number of the newest entry; 0 before the first
    Column(
        "last_round", Integer, nullable=False
    ),  # the newest that is decided; -1 before the first
    Column("snapshot_at", Integer, nullable=False),  # the entry after which the policy was so
    Column("snapshot", LargeBinary),
)

ENTRIES = Table(
    "entries",
    METADATA,
    Column("federation", Text, primary_key=True),
    Column("number", Integer, primary_key=True),  # from 1, without gaps
    Column("kind", Text, nullable=False),  # decision, outcome or plan
    Column("round", Integer),  # of a decision and an outcome
    Column("key", Text),  # under which it was asked for
    Column("plan", Integer),  # that is followed from here on
    Column("asked", LargeBinary),
    Column("answer", LargeBinary),
    Column("more", LargeBinary),  # of a decision: what its line does not say
    Column("created", Float, nullable=False),
    UniqueConstraint("federation", "kind", "round"),
    UniqueConstraint("federation", "kind", "key"),
)

PLANS = Table(
    "plans",
    METADATA,
    Column("federation", Text, primary_key=True),
    Column("number", Integer, primary_key=True),  # 0 is the one the policy began with
    Column("created", Float, nullable=False),
    Column("ordered_in", Integer),  # the round in which the policy itself ordered it
    Column("scenario_sha256", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("library", LargeBinary),
)

JOBS = Table(
    "jobs",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("federation", Text),
    Column("kind", Text, nullable=False),  # prepare, plan or bounds
    Column("key", Text),
    Column("settings", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),  # queued, running, done or failed
    Column("progress", Float, nullable=False),  # from 0 to 1
    Column("result", Text),
    Column("error", Text),
    Column("created", Float, nullable=False),
    Column("beat", Float),  # when whoever is at it was last known to be alive
    Column("owner", Text),
    UniqueConstraint("federation", "kind", "key"),
)

BOUNDS = Table(
    "bounds",
    METADATA,
    Column("scenario_sha256", Text, primary_key=True),
    Column("round_sha256", Text, primary_key=True),
    Column("cost", Float),  # of the best decision that is known; null where none is feasible
    Column("lower_bound", Float),  # null where it is proven that none is feasible
)


def _create(connection: Connection) -> None:
    METADATA.create_all(connection)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_create,)
"""Each takes the tables from the version before to its own; the first makes them."""

_LOCK = 8400_8400  # any number: two servers that start at once must not both migrate


def migrate(connection: Connection) -> None:
    """Bring the tables to the newest version, whoever else is at it."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"select pg_advisory_xact_lock({_LOCK})"))
    found = 0
    if inspect(connection).has_table(SCHEMA.name):
        found = connection.execute(select(SCHEMA.c.version)).scalar() or 0
    if found > len(MIGRATIONS):
        raise StagewiseError(
            f"store: is of version {found}: must be of at most {len(MIGRATIONS)}, which this "
            f"Stagewise knows"
        )
    for step in MIGRATIONS[found:]:
        step(connection)
    if found != len(MIGRATIONS):
        connection.execute(SCHEMA.delete())
        connection.execute(insert(SCHEMA).values(version=len(MIGRATIONS)))
