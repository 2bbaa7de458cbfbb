"""DuckDB over the lake: bounded memory, spilling to LEEWAY_HOME, no network."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from pipelines.settings import settings

MEMORY_MB = 768
"""Of DuckDB's own; what does not fit goes to the disk."""


@contextmanager
def connected(memory_mb: int = MEMORY_MB) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an empty database in memory, gone with all that it spilled when the block ends.

    Args:
        memory_mb: its limit, MiB.
    """
    with spill_folder() as folder:
        config = {
            "memory_limit": f"{memory_mb}MiB",
            "temp_directory": str(folder),
            # It would download them.
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        with duckdb.connect(config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            # DuckDB 2.0 would draw it on stdout, which has the step's result, once `sql` takes more than two seconds.
            connection.execute("SET enable_progress_bar_print = false")
            yield connection


@contextmanager
def spill_folder() -> Iterator[Path]:
    """A folder for what one process needs for a while, gone when the block ends."""
    place = settings().home / "tmp"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, prefix="spill-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def quoted(name: str) -> str:
    """An identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string for SQL."""
    return "'" + value.replace("'", "''") + "'"
