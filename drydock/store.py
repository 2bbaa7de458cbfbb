"""The server's durable memory: one SQLite file in the data folder.

A change is on its way to the disk before the request that made it is answered, so it outlives a kill -9 of the server
(the write-ahead log is the operating system's by then; a power cut may cost the last moment's changes).
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Store:
    """Tables that several threads read and write. Each room of the server makes its own tables with `ensure`.

    Args:
        path: The file; made where there is none.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._lock = threading.RLock()
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")

    def ensure(self, schema: str) -> None:
        """The tables exist: schema is CREATE TABLE IF NOT EXISTS statements."""
        with self._lock:
            self._db.executescript(schema)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of the block's statements are kept, or none where it raises. Not to be nested."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # Where the disk is full SQLite has rolled back by itself.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        with self._lock:
            return self._db.execute(statement, values).fetchall()

    def close(self) -> None:
        """Nothing can be written any more."""
        with self._lock:
            self._db.close()
