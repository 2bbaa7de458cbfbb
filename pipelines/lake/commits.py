"""Describe commits to the lake, and retry them while other processes commit."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException, ValidationException
from sqlalchemy.exc import IntegrityError, OperationalError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from pipelines.errors import ConflictError

NAMESPACE = "leeway"
DATE_COLUMN = "date"
"""Column of every table: the day of the row's partition; if the partition is a month, its first day."""
PARTITION_PROPERTY = "leeway.partition"
"""Snapshot property: the partition that a commit wrote."""
DIGEST_PROPERTY = "leeway.digest"
"""Snapshot property: SHA-256 over the data files that a commit wrote."""
RETRY_S = 120.0
"""Longest time, seconds, that a commit is retried while other processes commit to the same table."""
RETRIES_PROPERTY = "commit.retry.num-retries"
"""Table property: how often pyiceberg itself retries a commit."""
TABLE_PROPERTIES = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # 0: a retry of pyiceberg 0.12 would append the rows to those that another writer committed meanwhile.
    RETRIES_PROPERTY: "0",
}


@dataclass(frozen=True)
class ChangeCounts:
    """The numbers of rows of a partition that a write added, removed and changed."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    """Rows that have the key of an old row, but other values."""

    def __bool__(self) -> bool:
        """Return whether any row changed."""
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True)
class Commit:
    """The result of one write to a partition."""

    snapshot_id: int
    """Snapshot that wrote the partition last: a new one, or an earlier one if this write changed nothing."""
    changed: bool
    """Whether this write created the snapshot `snapshot_id`; False if nothing was written, because the partition had
    the same rows and columns before, in intact files."""
    rows: int = 0
    """Rows of the partition; if only a part of it was written (`part_values`), the rows of this part."""
    changes: ChangeCounts = ChangeCounts()
    column_changes: Sequence[str] = ()
    """Changes of the table's columns by this write, one line for each changed column."""


def retry_conflicts() -> Iterable:  # type: ignore[type-arg]
    """Yield attempts at a commit, with random waits between them, for up to `RETRY_S` seconds.

    Raises:
        ConflictError: no attempt succeeded in that time. A retry can help.
    """
    return Retrying(
        retry=retry_if_exception(_is_conflict),
        stop=stop_after_delay(RETRY_S),
        wait=wait_random_exponential(multiplier=0.05, max=3.0),
        retry_error_callback=lambda state: _raise_conflict(state.outcome.exception() if state.outcome else None),
    )


def _is_conflict(error: BaseException) -> bool:
    if isinstance(error, OperationalError):
        # "already exists": another process is creating the catalog's own tables at this moment.
        text = str(error.orig)
        return isinstance(error.orig, sqlite3.OperationalError) and ("locked" in text or "already exists" in text)
    # IntegrityError: another process created the namespace or the table first.
    # ValidationException: another process wrote the same partition first; the next attempt reads and replaces it.
    return isinstance(error, (CommitFailedException, IntegrityError, ValidationException))


def _raise_conflict(error: BaseException | None) -> None:
    raise ConflictError(f"the lake's catalog stayed busy for {RETRY_S:.0f} s in process {os.getpid()}: {error}.")
