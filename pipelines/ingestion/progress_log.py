"""Log how many rows a long read has returned so far."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

from pipelines.system.log import log

INTERVAL_S = 5.0
"""Seconds between two lines of the log."""


def log_progress(
    batches: Iterable[pa.RecordBatch], title: str, interval_s: float = INTERVAL_S
) -> Iterator[pa.RecordBatch]:
    """Yield the batches unchanged; log how many rows were read, at most every `interval_s` seconds.

    Args:
        batches: batches to yield; read once.
        title: name of what is read, for the log.
        interval_s: shortest time between two lines of the log, seconds.
    """
    rows, logged_at = 0, time.monotonic()
    for batch in batches:
        rows += batch.num_rows
        if time.monotonic() - logged_at >= interval_s:
            log.info("%s: %s rows read so far", title, f"{rows:,}")
            logged_at = time.monotonic()
        yield batch
