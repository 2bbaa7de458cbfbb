"""Stages one partition of a dataset: from its source into the staging table.

Idempotent: an unchanged partition commits nothing. Nothing is published here: `validate` alone does that. The rows pass
through in batches: memory does not grow with the partition.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.contract import Changes, Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError
from pipelines.system.log import log

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.lake import Commit
    from pipelines.source import Source


class IngestSpec(Spec):
    """One partition to stage."""

    dataset: str = "flights"
    """Package under pipelines/ that holds the source."""
    partition: dt.date
    """Day to stage (YYYY-MM-DD)."""
    folder: Path | None = None
    """Folder of the source's files; the source's own place where it is not given."""


class IngestResult(Result):
    """A staged partition."""

    table: str
    """Staging table."""
    partition: dt.date
    """Day that was staged."""
    rows: int
    """Rows of the partition."""
    snapshot_id: int
    """Iceberg snapshot of the staging table that wrote the partition: its version."""
    changed: bool
    """False where the lake held the same rows already."""
    new: bool
    """Whether the lake held no rows of the day before."""
    changes: Changes
    """What differs from the rows that it held before."""
    columns: list[str]
    """What the rows did to the table's columns (added, widened), a line each."""


def run(spec: IngestSpec) -> IngestResult:
    """The partition's rows are in the staging table, and only they.

    Raises:
        DataError: the day is not in the source or empty, or a column is missing. A retry cannot help.
        ConflictError: the catalog stayed busy. A retry can help.
    """
    chosen = load_dataset(spec.dataset)
    return stage_partition(chosen, chosen.open_source(spec.folder), spec.partition)


def stage_partition(chosen: Dataset, source: Source, day: dt.date) -> IngestResult:
    """As `run`, from a source that is open."""
    import pyarrow as pa

    from pipelines.ingestion.progress_log import log_progress
    from pipelines.lake import Lake

    reader = source.read(day)
    batches = log_progress(
        _check_not_empty(reader, f"the source of {chosen.name} has no rows for {day}"), f"{chosen.staging} {day}"
    )
    rows = pa.RecordBatchReader.from_batches(reader.schema, batches)
    return report_commit(chosen.staging, day, Lake.open().write_partition(chosen.staging, day, rows, chosen.key))


def report_commit(table: str, day: dt.date, commit: Commit) -> IngestResult:
    """What a commit to the staging table did; the log says it too, and a line for each column that is new or wider."""
    changes = Changes(**asdict(commit.changes))
    result = IngestResult(
        table=table,
        partition=day,
        rows=commit.rows,
        snapshot_id=commit.snapshot_id,
        changed=commit.changed,
        new=commit.changed and changes == Changes(added=commit.rows),
        changes=changes,
        columns=list(commit.columns),
    )
    how = "new" if result.new else f"changed: {changes}" if result.changed else "same"
    log.info("%s %s: %d rows, %s", table, day, result.rows, how)
    for line in result.columns:
        log.warning("%s %s: %s", table, day, line)
    return result


def _check_not_empty(batches: Iterable[pa.RecordBatch], otherwise: str) -> Iterator[pa.RecordBatch]:
    """The batches; an error in the place of no row at all."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        yield batch
    if not rows:
        raise DataError(f"{otherwise}.", "Nothing was staged.")
