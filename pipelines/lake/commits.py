"""What a commit to the lake is, and the patience to make one while others do."""

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
PARTITION = "date"
"""Name of the partition column of every table."""
PARTITION_PROPERTY = "leeway.partition"
"""Snapshot property: the partition that a commit wrote."""
DIGEST_PROPERTY = "leeway.digest"
"""Snapshot property: SHA-256 of the files that a commit wrote."""
RETRY_S = 120.0
"""Longest time that a commit is tried again while others commit to the same table."""
RETRIES = "commit.retry.num-retries"
TABLE_PROPERTIES = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # pyiceberg 0.12 would append what it wrote beside what another writer committed to the same partition meanwhile.
    RETRIES: "0",
}


@dataclass(frozen=True)
class Changes:
    """How a partition differs from what it was, in rows."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    """Rows of a key that had another content."""

    def __bool__(self) -> bool:
        """Whether it differs."""
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True)
class Commit:
    """What a write did, and what it changed."""

    snapshot_id: int
    """The table's snapshot that wrote the partition: it stays the same while the partition does."""
    changed: bool
    """Whether this write made the snapshot."""
    rows: int = 0
    """Rows of the partition."""
    changes: Changes = Changes()
    columns: Sequence[str] = ()
    """What the write did to the table's columns, a line each."""


def retry_conflicts() -> Iterable:  # type: ignore[type-arg]
    """Attempts at a commit, with random waits between them, until `RETRY_S` is over."""
    return Retrying(
        retry=retry_if_exception(_is_conflict),
        stop=stop_after_delay(RETRY_S),
        wait=wait_random_exponential(multiplier=0.05, max=3.0),
        retry_error_callback=lambda state: _give_up(state.outcome.exception() if state.outcome else None),
    )


def _is_conflict(error: BaseException) -> bool:
    if isinstance(error, OperationalError):
        # "exists": another process is making the catalog's tables at this moment.
        told = str(error.orig)
        return isinstance(error.orig, sqlite3.OperationalError) and ("locked" in told or "already exists" in told)
    # IntegrityError: another made the namespace or the table first. ValidationException: another committed the same
    # partition first; on the next attempt it is read again, and written over.
    return isinstance(error, (CommitFailedException, IntegrityError, ValidationException))


def _give_up(error: BaseException | None) -> None:
    raise ConflictError(f"the lake's catalog stayed busy for {RETRY_S:.0f} s in process {os.getpid()}: {error}.")
