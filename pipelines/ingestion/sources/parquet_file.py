"""Rows of a Parquet file, a piece of a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import DataError
from pipelines.ingestion.sources.layouts import Layout, demand

BATCH_ROWS = 64 * 1024
BUFFER = 1024 * 1024
"""Bytes of a column that are read at a time: memory does not grow with the row groups."""


def batches(file: Any, place: str, layout: Layout) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches, each with the number of its first row. The first may be empty.

    Raises:
        DataError: a column is missing, or the file is not whole.
    """
    file.seek(0, 2)
    if not file.tell():
        raise DataError(f"{place} is empty (0 bytes): even a Parquet file without rows has a footer.")
    file.seek(0)
    # pre_buffer: pyarrow 25 would hold the row groups, outside its own pool (3 M rows: 150 MB in the place of 90).
    with pq.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False) as parquet:
        names = parquet.schema_arrow.names
        demand(place, list(layout.columns), names)
        chosen = [one for one in names if one in layout.columns or layout.extra == "take"]
        row = 1
        for batch in parquet.iter_batches(BATCH_ROWS, columns=chosen):
            yield row, batch
            row += batch.num_rows
        if row == 1:
            yield row, pa.RecordBatch.from_pylist([], schema=pa.schema([parquet.schema_arrow.field(n) for n in chosen]))
