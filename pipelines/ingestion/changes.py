"""Read the new and changed rows of a source by cursor, and merge them by key into the staging partitions of their days.

The changed rows are in a temporary file until they are merged, so memory use does not grow with their number.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.ingestion.progress_log import log_progress
from pipelines.lake import DATE_COLUMN, Lake, connect
from pipelines.lake.evolution import to_iceberg_schema
from pipelines.lake.new_files import regroup_rows
from pipelines.source import ChangingSource
from pipelines.system.duckdb_session import LOW_MEMORY_MIB, quote_identifier, quote_text, retry_with_more_memory
from pipelines.system.temporary_folders import make_temporary_folder

BATCH_ROWS = 64 * 1024
"""Number of rows in a batch of merged rows."""
KEY_HASH, NUMBER = "leeway key hash", "leeway number"
"""Columns that are added for the merge: the hash of the key, and the position of a changed row in the order in which
the source returned it. The number is null in rows of the lake."""
# DuckDB only sorts here, because a sort can use the disk. For a window function or a join, DuckDB 2.0 needs memory for
# all rows.
_SORT_QUERY = """
SELECT *, hash({key}) AS {key_hash} FROM (
    SELECT * EXCLUDE (file_row_number), file_row_number AS {number}
    FROM read_parquet({path}, file_row_number = true) WHERE {date} = DATE '{day}'
    {old_rows}
) ORDER BY {key}, {number} DESC NULLS LAST
"""


@dataclass
class ChangedRows:
    """A file with the new and changed rows of a source, in the order of the cursor."""

    path: Path
    """The file, in Parquet."""
    columns: list[str]
    """Columns of the source, including those that have no value in any row."""
    rows: int = 0
    """Number of rows in the file."""
    largest_cursor: Any = None
    """Largest value of the cursor; None if no row was read."""
    _days: set[dt.date] = field(default_factory=set)

    @property
    def days(self) -> list[dt.date]:
        """The days that the rows belong to, sorted."""
        return sorted(self._days)

    @property
    def watermark(self) -> str:
        """Largest value of the cursor, as text; empty if no row was read."""
        if self.largest_cursor is None:
            return ""
        return str(
            self.largest_cursor.isoformat() if hasattr(self.largest_cursor, "isoformat") else self.largest_cursor
        )

    def add_batch(self, batch: pa.RecordBatch, cursor: str) -> None:
        """Update the number of rows, the days and the largest cursor by a batch that is written to the file."""
        if batch.num_rows:
            largest_cursor = pc.max(batch[cursor]).as_py()
            self.largest_cursor = (
                largest_cursor if self.largest_cursor is None else max(largest_cursor, self.largest_cursor)
            )
            self._days.update(pc.unique(batch[DATE_COLUMN]).to_pylist())
            self.rows += batch.num_rows


@contextmanager
def read_changes(
    source: ChangingSource, since: str | None, title: str, table_schema: pa.Schema | None
) -> Iterator[ChangedRows]:
    """Read the source's rows whose cursor is above `since` into a file, which is removed when the block ends.

    Args:
        source: the source.
        since: watermark, the largest cursor that was read before; None to read all rows.
        title: name of what is read, for the log and for messages.
        table_schema: columns of the table that the rows are written to; None if there is no table yet.

    Raises:
        DataError: `date`, the cursor or a column of the table is missing; a row has no day or no cursor; or `date` is
            not a date32. A retry cannot help.
    """
    reader = source.read_changes(since)
    _check_columns(reader.schema.names, source.cursor, table_schema, title)
    schema = to_iceberg_schema(reader.schema, table_schema)
    with make_temporary_folder() as folder:
        changed_rows = ChangedRows(folder / "rows.parquet", list(reader.schema.names))
        with pq.ParquetWriter(changed_rows.path, schema, compression="zstd") as writer:
            batches = _check_batches(log_progress(reader, title), source.cursor, title, changed_rows)
            for group in regroup_rows(schema, (batch.select(schema.names).cast(schema) for batch in batches)):
                writer.write_table(group)
        yield changed_rows


@contextmanager
def merge_changes(
    lake: Lake, dataset: Dataset, changed_rows: ChangedRows, day: dt.date, *, has_partition: bool
) -> Iterator[pa.RecordBatchReader]:
    """Yield the rows that a staging partition has after the changes, sorted by key.

    These are the newest changed row of each key that changed, and the lake's rows of all other keys.

    Args:
        lake: the lake of the partition.
        dataset: the dataset of the partition.
        changed_rows: changed rows of this day and of other days.
        day: the partition.
        has_partition: whether the staging table has rows of the day.
    """
    key = [quote_identifier(name) for name in dataset.key]
    query = _SORT_QUERY.format(
        path=quote_text(str(changed_rows.path)),
        date=quote_identifier(DATE_COLUMN),
        day=day,
        key=", ".join(key),
        key_hash=quote_identifier(KEY_HASH),
        number=quote_identifier(NUMBER),
        old_rows="UNION ALL BY NAME SELECT * FROM old_rows" if has_partition else "",
    )
    with connect(LOW_MEMORY_MIB) as connection, ExitStack() as stack:
        # DuckDB 2.0 would keep the content of the files in memory.
        connection.execute("SET enable_external_file_cache = false")
        if has_partition:
            stack.enter_context(lake.create_view(connection, "old_rows", dataset.staging, day, day))
        # The result is closed before the view is dropped: DuckDB 2.0 cannot drop a view while a result reads it.
        with retry_with_more_memory(connection, lambda: connection.sql(query).to_arrow_reader(BATCH_ROWS)) as rows:
            schema = pa.schema([column for column in rows.schema if column.name not in (KEY_HASH, NUMBER)])
            yield pa.RecordBatchReader.from_batches(schema, _keep_newest_rows(rows, schema))


def _keep_newest_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the changed row with the largest `NUMBER` for each key that changed; for other keys, the lake's rows.

    Args:
        batches: rows with the columns `KEY_HASH` and `NUMBER`, sorted by the key, and by descending `NUMBER` with nulls
            last.
        schema: columns of the rows that are yielded.
    """
    last_hash, is_key_changed = None, False
    for batch in batches:
        hashes = batch[KEY_HASH].to_numpy()
        is_first = np.append(last_hash is None or hashes[:1] != last_hash, hashes[1:] != hashes[:-1])
        is_old = batch[NUMBER].is_null().to_numpy(zero_copy_only=False)
        # For each row, the position of the first row with its key, counted from 1; 0 if that row is in an earlier
        # batch.
        first_indexes = np.maximum.accumulate(np.where(is_first, np.arange(1, len(hashes) + 1), 0))
        is_changed = np.append(is_key_changed, ~is_old)[first_indexes]
        yield batch.select(schema.names).filter(pa.array(is_first | ~is_changed))
        last_hash, is_key_changed = hashes[-1], is_changed[-1]


def _check_columns(columns: list[str], cursor: str, table_schema: pa.Schema | None, title: str) -> None:
    # The lake cannot check this: after the merge with old rows, a missing column looks like a column of nulls.
    required_columns = {DATE_COLUMN, cursor, *(table_schema.names if table_schema else ())}
    missing_columns = sorted(required_columns - set(columns))
    if missing_columns:
        raise DataError(
            f"{title}: column {', '.join(missing_columns)} is gone.", "Correct the source, or write to a new table."
        )


def _check_batches(
    batches: Iterable[pa.RecordBatch], cursor: str, title: str, changed_rows: ChangedRows
) -> Iterator[pa.RecordBatch]:
    """Yield the batches; check each of them, and update `changed_rows` by it."""
    for batch in batches:
        _check_batch(batch, cursor, title)
        changed_rows.add_batch(batch, cursor)
        yield batch


def _check_batch(batch: pa.RecordBatch, cursor: str, title: str) -> None:
    for name in (DATE_COLUMN, cursor):
        if batch[name].null_count:
            raise DataError(f"{title}: {batch[name].null_count} rows have no {name}.", "Nothing was staged.")
    if not pa.types.is_date32(batch[DATE_COLUMN].type):
        message = f"{title}: column {DATE_COLUMN} holds {batch[DATE_COLUMN].type}, not days."
        raise DataError(message, "The source must return it as date32.")
