"""Test that a query that needs more memory than a low limit is repeated with more."""

import duckdb
import pytest

from pipelines.system import duckdb_session

QUERY = "SELECT list(i ORDER BY i)[-1] FROM range(1000000) AS t(i)"
"""DuckDB holds the list in memory, and cannot spill it."""


def run_query(memory_mib: int) -> list[tuple[int]]:
    """Run `QUERY` on a connection with this limit, and repeat it with more memory where it fails."""
    with duckdb_session.connect(memory_mib) as connection:
        return duckdb_session.retry_with_more_memory(connection, lambda: connection.execute(QUERY).fetchall())


@pytest.mark.usefixtures("home")
def test_a_query_that_does_not_fit_is_repeated() -> None:
    with duckdb_session.connect(8) as connection, pytest.raises(duckdb.OutOfMemoryException):
        connection.execute(QUERY).fetchall()
    assert run_query(8) == [(999_999,)]


@pytest.mark.usefixtures("home")
def test_the_higher_limit_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_session, "MEMORY_MIB", 9)
    with pytest.raises(duckdb.OutOfMemoryException):
        run_query(8)
