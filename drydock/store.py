"""The server's durable storage: one SQLite file in the data folder.

A change is written before the request that made it is answered, so it survives a kill -9 of the server. (The
write-ahead log is then in the operating system's cache; a power failure may lose the latest changes.)
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Store:
    """An SQLite file that several threads read and write. Each package creates its own tables.

    Args:
        path: The file; created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._lock = threading.RLock()
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")

    def create_tables(self, schema: str) -> None:
        """Create the tables of a schema that do not exist yet. Idempotent.

        Args:
            schema: CREATE TABLE IF NOT EXISTS statements.
        """
        with self._lock:
            self._db.executescript(schema)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block as one transaction: all of its statements are stored, or none if it raises. Cannot be nested."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # If the disk is full, SQLite has already rolled back.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a SELECT statement with values for its placeholders, and return its rows."""
        with self._lock:
            return self._db.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the file; nothing can be read or written afterwards."""
        with self._lock:
            self._db.close()
