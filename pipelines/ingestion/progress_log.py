"""Log how many rows a long read has brought so far."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

from pipelines.system.log import log

INTERVAL_S = 5.0


def log_progress(
    batches: Iterable[pa.RecordBatch], title: str, every_s: float = INTERVAL_S
) -> Iterator[pa.RecordBatch]:
    """Yield the batches unchanged, and log now and then how many rows have come.

    Args:
        batches: read once.
        title: what is read, for the log line.
        every_s: seconds between two lines.
    """
    rows, logged_at = 0, time.monotonic()
    for batch in batches:
        rows += batch.num_rows
        if time.monotonic() - logged_at >= every_s:
            log.info("%s: %s rows read so far", title, f"{rows:,}")
            logged_at = time.monotonic()
        yield batch
