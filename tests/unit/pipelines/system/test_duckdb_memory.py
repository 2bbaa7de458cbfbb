"""Test that a query that needs more memory is repeated with more, and what is said where that does not help."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from pipelines.errors import InvalidError, StorageError
from pipelines.system import duckdb_session
from pipelines.system.error_translation import translate_error

QUERY = "SELECT list(i ORDER BY i)[-1] FROM range(3000000) AS t(i)"
"""DuckDB holds the list in memory, and cannot spill it."""
SORT_QUERY = "SELECT md5(i::VARCHAR) AS m FROM range(2000000) AS t(i) ORDER BY m"
"""DuckDB spills what it sorts."""


def run_query(memory_mib: int) -> list[tuple[int]]:
    """Run `QUERY` on a connection with this limit, and repeat it with more memory where it fails."""
    with duckdb_session.connect(memory_mib) as connection:
        return duckdb_session.retry_with_more_memory(connection, lambda: connection.execute(QUERY).fetchall())


@pytest.mark.usefixtures("home")
def test_a_query_that_does_not_fit_is_repeated() -> None:
    with duckdb_session.connect(8) as connection, pytest.raises(duckdb.OutOfMemoryException):
        connection.execute(QUERY).fetchall()
    assert run_query(8) == [(2_999_999,)]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("is_read_by_arrow", [False, True])
def test_the_limit_of_the_setting_holds_and_is_named(
    is_read_by_arrow: bool, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_MEMORY_MIB", "16")
    fresh_settings()
    with pytest.raises(Exception, match="Out of Memory") as error, duckdb_session.connect() as connection:  # noqa: PT012
        if is_read_by_arrow:
            connection.sql(QUERY).to_arrow_reader().read_all()
        else:
            run_query(8)
    translation = translate_error(error.value)
    assert type(translation) is InvalidError
    assert str(translation).startswith("DuckDB needs more memory than it may use: failed to ")
    assert str(translation).endswith(" used). Set LEEWAY_MEMORY_MIB higher (MiB; default: 768).")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("memory_mib", "limit"), [(None, "64.0 MiB"), (128, "64.0 MiB"), (32, "32.0 MiB")])
def test_no_limit_is_higher_than_that_of_the_setting(
    memory_mib: int | None, limit: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_MEMORY_MIB", "64")
    fresh_settings()
    with duckdb_session.connect(memory_mib) as connection:
        assert connection.sql("SELECT current_setting('memory_limit')").fetchall() == [(limit,)]


@pytest.fixture
def small_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> Iterator[Path]:
    """Set LEEWAY_HOME to a tmpfs of 4 MiB."""
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "leeway-test", str(tmp_path)], capture_output=True, text=True
    )
    if mount.returncode:
        pytest.skip(f"this machine does not permit a mount: {mount.stderr.strip()}")
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "home"))
    fresh_settings()
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@pytest.mark.parametrize("filled_bytes", [0, 3_900_000])
def test_a_full_disk_where_duckdb_spills_is_named(small_home: Path, filled_bytes: int) -> None:
    (small_home / "filler").write_bytes(bytes(filled_bytes))
    with pytest.raises(duckdb.Error) as error, duckdb_session.connect(16) as connection:
        connection.execute(SORT_QUERY).fetchall()
    translation = translate_error(error.value)
    assert isinstance(translation, StorageError)
    assert str(translation).startswith("there is no space left on the disk.")
