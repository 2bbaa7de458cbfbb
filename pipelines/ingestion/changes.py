"""What a source without partitions brings: rows of any day, to be merged by key into the days that they belong to.

On the disk while they are sorted out, so memory does not grow with them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.ingestion.progress_log import log_progress
from pipelines.lake import PARTITION, Lake, connect
from pipelines.lake.evolution import to_iceberg_schema
from pipelines.source import ChangingSource
from pipelines.system.duckdb_session import quote_identifier, quote_text, spill_folder

MEMORY_MB = 384
"""Of DuckDB, which has Arrow and the lake beside it here; what does not fit goes to the disk."""
_MERGED = """
WITH fresh AS (
    SELECT * EXCLUDE (file_row_number) FROM read_parquet({path}, file_row_number = true)
    WHERE {date} = DATE '{day}'
    QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY file_row_number DESC) = 1
)
{rows} ORDER BY {key}
"""
_BESIDE = "SELECT * FROM fresh UNION ALL BY NAME SELECT * FROM had WHERE NOT EXISTS (SELECT 1 FROM fresh WHERE {same})"


@dataclass
class ChangedRows:
    """Rows that came, in a file, in the order of the cursor."""

    path: Path
    columns: list[str]
    """Of the source, those of which no value is known among them."""
    rows: int = 0
    newest: Any = None
    """Largest value of the cursor."""
    seen: set[dt.date] = field(default_factory=set)

    @property
    def days(self) -> list[dt.date]:
        """The days that the rows belong to, sorted."""
        return sorted(self.seen)

    @property
    def watermark(self) -> str:
        """Largest value of the cursor, as text; empty where no row came."""
        if self.newest is None:
            return ""
        return str(self.newest.isoformat() if hasattr(self.newest, "isoformat") else self.newest)


@contextmanager
def read_changes(
    source: ChangingSource, since: str | None, what: str, known: pa.Schema | None
) -> Iterator[ChangedRows]:
    """The source's rows beyond `since`, for as long as the block lasts.

    Args:
        source: read to its end.
        since: watermark; None: all rows.
        what: is read, for the log.
        known: columns of the table that they go to, where there is one.

    Raises:
        DataError: the columns are not those of the table, or a row has no day or no cursor. A retry cannot help.
    """
    reader = source.changes(since)
    _check_columns(reader.schema.names, source.cursor, known, what)
    schema = to_iceberg_schema(reader.schema, known)
    with spill_folder() as folder:
        came = ChangedRows(folder / "rows.parquet", list(reader.schema.names))
        with pq.ParquetWriter(came.path, schema, compression="zstd") as writer:
            for batch in log_progress(reader, what):
                _check_and_count(came, batch, source.cursor, what)
                writer.write_batch(batch.select(schema.names).cast(schema))
        yield came


@contextmanager
def merge_changes(
    lake: Lake, chosen: Dataset, came: ChangedRows, day: dt.date, held: bool
) -> Iterator[pa.RecordBatchReader]:
    """The staging partition as it is to be: the newest row of each key, sorted by key.

    Args:
        lake: of the partition.
        chosen: the dataset.
        came: rows, of this day and others.
        day: the partition.
        held: whether the lake has it.
    """
    key = [quote_identifier(one) for one in chosen.key]
    beside = _BESIDE.format(same=" AND ".join(f"fresh.{one} IS NOT DISTINCT FROM had.{one}" for one in key))
    query = _MERGED.format(
        path=quote_text(str(came.path)),
        date=quote_identifier(PARTITION),
        day=day,
        key=", ".join(key),
        rows=beside if held else "SELECT * FROM fresh",
    )
    with connect(MEMORY_MB) as connection, ExitStack() as stack:
        if held:
            stack.enter_context(lake.create_view(connection, "had", chosen.staging, day, day))
        # Closed before the view is dropped, which DuckDB 2.0 does not do under an open result.
        with connection.sql(query).to_arrow_reader() as rows:
            yield rows


def _check_columns(columns: list[str], cursor: str, known: pa.Schema | None, what: str) -> None:
    # Not left to the lake: beside the rows of before, a column that is gone would look like one of nulls.
    wanted = {PARTITION, cursor, *(known.names if known else ())}
    gone = sorted(wanted - set(columns))
    if gone:
        raise DataError(f"{what}: column {', '.join(gone)} is gone.", "Mend the source, or write to a new table.")


def _check_and_count(came: ChangedRows, batch: pa.RecordBatch, cursor: str, what: str) -> None:
    for name in (PARTITION, cursor):
        if batch[name].null_count:
            raise DataError(f"{what}: {batch[name].null_count} rows have no {name}.", "Nothing was staged.")
    if not pa.types.is_date32(batch[PARTITION].type):
        raise DataError(f"{what}: column {PARTITION} holds {batch[PARTITION].type}, not days.")
    if batch.num_rows:
        newest = pc.max(batch[cursor]).as_py()
        came.newest = newest if came.newest is None else max(newest, came.newest)
        came.seen.update(pc.unique(batch[PARTITION]).to_pylist())
        came.rows += batch.num_rows
