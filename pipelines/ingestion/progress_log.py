"""Rows on their way in: what a long read says of itself."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

from pipelines.system.log import log

INTERVAL_S = 5.0


def log_progress(batches: Iterable[pa.RecordBatch], what: str, every_s: float = INTERVAL_S) -> Iterator[pa.RecordBatch]:
    """The batches as they are; a line says now and then how many rows came so far.

    Args:
        batches: read once.
        what: is read, for the line.
        every_s: seconds between two lines.
    """
    rows, last = 0, time.monotonic()
    for batch in batches:
        rows += batch.num_rows
        if time.monotonic() - last >= every_s:
            log.info("%s: %s rows read so far", what, f"{rows:,}")
            last = time.monotonic()
        yield batch
