"""Read scored rows in batches, and sum, by day, values that are computed from each row.

Memory use does not grow with the number of rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Array = np.ndarray[Any, Any]
Day = dt.date | None
"""The day to which sums belong; None: all days together."""
BATCH_ROWS = 65_536
"""Number of rows that are in memory at a time."""


def read_batches(paths: Iterable[Path], names: Collection[str], day_column: str) -> Iterator[pa.Table]:
    """Read those columns of `names` that a file has, and the column with the date, if `day_column` names one."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            columns = [name for name in file.schema_arrow.names if name in {*names, day_column}]
            for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                yield pa.table(batch)


def sum_by_day(batches: Iterable[pa.Table], measure: Callable[[pa.Table], Array], day_column: str) -> dict[Day, Array]:
    """Compute values for each row, and sum them by day.

    Args:
        batches: the rows.
        measure: returns the values of each row of a batch, shape (rows, values).
        day_column: column with the date; empty: all rows together.
    """
    sums: dict[Day, Array] = {}
    for batch in batches:
        numbers = measure(batch)
        for day, is_in_day in _group_by_day(batch, day_column):
            sums[day] = sums.get(day, 0.0) + numbers[is_in_day].sum(axis=0)
    return sums


def _group_by_day(rows: pa.Table, day_column: str) -> Iterator[tuple[Day, Any]]:
    """Yield each day, with the index that selects its rows: a mask, or all rows if there is no column with the date."""
    if not day_column:
        yield None, slice(None)
        return
    days = rows[day_column].cast(pa.date32()).combine_chunks()
    for day in pc.unique(days).to_pylist():
        yield day, np.asarray(pc.equal(days, pa.scalar(day, pa.date32())))
