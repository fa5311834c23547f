"""A store of each kind for every test."""

import postgresql_server
import pytest


@pytest.fixture(scope="session")
def postgresql():
    """The address of a server of the tests' own; skipped where there is none."""
    within = postgresql_server.programs()
    if within is None:
        pytest.skip("needs PostgreSQL's server: none is installed")
    with postgresql_server.running(within) as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path) -> str:
    """The address of an empty store."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return postgresql_server.new_database(request.getfixturevalue("postgresql"))
