"""Transactions on both stores."""

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import SQLAlchemyError

from stagewise.serve.database import Database
from stagewise.serve.tables import SCHEMA


@pytest.mark.parametrize("error", [SQLAlchemyError, KeyboardInterrupt])
def test_nothing_is_kept_of_a_block_that_fails(store_url, error):
    """Also where statements go to the driver itself, whose errors come as SQLAlchemy's."""
    database = Database(store_url)
    try:
        with pytest.raises(error), database.driver_cursor(writes=True) as cursor:
            cursor.execute("insert into schema_version values (99)")
            if error is KeyboardInterrupt:
                raise KeyboardInterrupt
            cursor.execute("select nothing from nowhere")
        with database.driver_cursor(writes=True) as cursor:
            cursor.execute("insert into schema_version values (98)")
        with database.reading() as connection:
            assert set(connection.execute(select(SCHEMA.c.version)).scalars()) == {1, 98}
    finally:
        database.close()


def test_a_store_that_cannot_be_reached_is_an_error_of_sqlalchemy(store_url):
    """Which the service answers with 503: its callers try again."""
    database = Database(store_url)
    engine = database._engine

    def refuse(dialect, record, arguments, options):
        raise dialect.loaded_dbapi.OperationalError("connection refused")

    engine.dispose()
    event.listen(engine, "do_connect", refuse)
    try:
        for writes in (False, True):
            with pytest.raises(SQLAlchemyError), database.driver_cursor(writes):
                pass
        event.remove(engine, "do_connect", refuse)
        with database.driver_cursor(writes=False) as cursor:
            cursor.execute("select 1")
    finally:
        database.close()
