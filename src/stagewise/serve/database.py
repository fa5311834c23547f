"""A connection to SQLite or PostgreSQL: transactions, and what differs between the two."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from sqlalchemy import Connection, Engine, Executable, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from stagewise.errors import StagewiseError, one_line, shown
from stagewise.serve.tables import migrate

_WAIT_S = 30.0
_READS = {"reads": True}
_CHECKPOINT_S = 1.0
_LARGEST_LOG = 20_000
"""Pages of SQLite's log after which a commit takes them over itself."""


class DriverStatement:
    """A statement that is compiled once and given to the driver as it is.

    For what every decision asks: SQLAlchemy takes ten times as long over these as SQLite.
    """

    def __init__(self, engine: Engine, statement: Executable) -> None:
        compiled: Any = statement.compile(dialect=engine.dialect)  # type: ignore[attr-defined]
        self._text, self._order = str(compiled), compiled.positiontup

    def execute(self, cursor: Any, values: Mapping[str, Any]) -> Any:
        cursor.execute(self._text, self._given(values))
        return cursor

    def execute_many(self, cursor: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        cursor.executemany(self._text, [self._given(values) for values in rows])

    def _given(self, values: Mapping[str, Any]) -> Any:
        return values if self._order is None else [values[name] for name in self._order]


class Database:
    """Opens `url` (a file of SQLite, or `postgresql://...`) and brings its tables up to date."""

    def __init__(self, url: str) -> None:
        self.work_events: list[Event] = []
        """Set when there is work for whoever waits for it in this process."""
        self._engine = _engine(url)
        self._is_sqlite = self._engine.dialect.name == "sqlite"
        self._closed = Event()
        try:
            with self.writing() as connection:
                migrate(connection)
        except DBAPIError as error:
            raise StagewiseError(
                f"store = {shown(_public(url))}: cannot be opened: {one_line(str(error.orig))}"
            ) from None
        if self._is_sqlite:
            Thread(target=self._checkpoint, name="checkpoints", daemon=True).start()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is kept as a whole when the block ends well, else not at all.

        On SQLite there is one at a time.
        """
        with self._connected() as connection, connection.begin():
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """What was kept before the block, seen as of one moment for each question."""
        with self._connected() as connection:
            yield connection.execution_options(**_READS)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            try:
                yield connection
            finally:
                if self._closed.is_set():  # there is no pool to go back to
                    connection.invalidate()

    def driver_statement(self, statement: Executable) -> DriverStatement:
        return DriverStatement(self._engine, statement)

    @contextmanager
    def driver_cursor(self, writes: bool) -> Iterator[Any]:
        """The driver's own cursor; what is written is kept when the block ends well, else not at all."""
        with self._driver_errors():
            pooled = self._engine.raw_connection()
            try:
                cursor = pooled.cursor()
                if writes and self._is_sqlite:
                    cursor.execute("begin immediate")
                yield cursor
                cursor.close()
                if writes:
                    pooled.commit()
            except BaseException:
                pooled.invalidate()  # whatever is wrong with it
                raise
            finally:
                if self._closed.is_set():
                    pooled.invalidate()
                pooled.close()

    @contextmanager
    def _driver_errors(self) -> Iterator[None]:
        """The driver's errors as SQLAlchemy's, also where there is no connection to be had."""
        try:
            yield
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise DBAPIError(None, None, error) from None

    def _checkpoint(self) -> None:
        """Take over SQLite's log now and then, which waits for the disk: no commit has to do it."""
        while not self._closed.wait(_CHECKPOINT_S):
            try:
                with self.driver_cursor(writes=False) as cursor:
                    cursor.execute("pragma wal_checkpoint(passive)")
            except SQLAlchemyError:  # the next one will do
                continue

    def notify_workers(self) -> None:
        for work in self.work_events:
            work.set()

    def close(self) -> None:
        self._closed.set()
        self._engine.dispose()


def _engine(url: str) -> Engine:
    if "://" not in url:
        return _sqlite(url)
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres"):
        raise StagewiseError(
            f"store = {shown(_public(url))}: must be a file for SQLite, or postgresql://..."
        )
    try:
        return create_engine(
            f"postgresql+psycopg://{rest}", pool_size=16, max_overflow=48, pool_pre_ping=True
        )
    except ModuleNotFoundError:
        raise StagewiseError(
            "store: PostgreSQL needs psycopg: pip install 'stagewise-hfl[postgresql]'"
        ) from None
    except (SQLAlchemyError, ValueError) as error:
        raise StagewiseError(f"store = {shown(_public(url))}: {one_line(str(error))}") from None


def _sqlite(path: str) -> Engine:
    folder = Path(path).parent
    if not folder.is_dir():
        raise StagewiseError(f"store = {shown(path)}: its folder must exist")
    engine = create_engine(
        f"sqlite:///{path}",
        connect_args={"timeout": _WAIT_S, "check_same_thread": False},
        poolclass=QueuePool,
        pool_size=16,
        max_overflow=48,
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, record: object) -> None:
        connection.isolation_level = None  # transactions begin where we say
        # The log is handed to the operating system with every commit: it outlives a killed process.
        for pragma in (
            "journal_mode = wal",
            "synchronous = normal",
            f"wal_autocheckpoint = {_LARGEST_LOG}",
        ):
            connection.execute(f"pragma {pragma}")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # One that reads first and writes later could not wait for another writer.
        reads = connection.get_execution_options().get("reads", False)
        connection.exec_driver_sql("begin" if reads else "begin immediate")

    return engine


def _public(url: str) -> str:
    """The address without a password."""
    scheme, slashes, rest = url.partition("://")
    return f"{scheme}{slashes}{rest.rpartition('@')[2]}" if slashes else url
