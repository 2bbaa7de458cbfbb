"""Stage one partition of a dataset: copy it from the source to the staging table.

Idempotent: an unchanged partition commits nothing. The step publishes nothing: only `validate` does. Rows are read and
written in batches, so memory does not grow with the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.contract import Changes, Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError
from pipelines.partitions import Partition, PartitionKey, check_partition
from pipelines.system.log import log

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.lake import Commit, Lake
    from pipelines.source import Source


class IngestSpec(Spec):
    """One partition to stage."""

    dataset: str
    """Dataset whose source is read."""
    partition: PartitionKey
    """Partition to stage: a day (YYYY-MM-DD), an hour (YYYY-MM-DDTHH) or a month (YYYY-MM), depending on the
    dataset."""
    folder: Path | None = None
    """Folder of the source's files; by default, the folder that the dataset defines."""


class IngestResult(Result):
    """A staged partition."""

    table: str
    """Staging table."""
    partition: PartitionKey
    """Partition that was staged."""
    rows: int
    """Rows of the partition."""
    snapshot_id: int
    """Id of the Iceberg snapshot that wrote the partition to the staging table. It is the partition's version."""
    changed: bool
    """False if the lake had the same rows already."""
    new: bool
    """True if the lake had no rows of this partition before."""
    changes: Changes
    """How the rows differ from those that the lake had before."""
    columns: list[str]
    """Columns of the table that were added or widened, one line for each."""


def run(spec: IngestSpec) -> IngestResult:
    """Write the partition's rows to the staging table, replacing the rows that it had before.

    Raises:
        SpecError: the partition is not of the dataset's unit. A retry cannot help.
        DataError: the source has no rows of the partition, or a column is missing. A retry cannot help.
        ConflictError: other processes kept the catalog busy. A retry can help.
    """
    from pipelines.lake import Lake

    dataset = load_dataset(spec.dataset)
    check_partition(dataset, spec.partition)
    return stage_partition(dataset, dataset.open_source(spec.folder), spec.partition, Lake.open())


def stage_partition(dataset: Dataset, source: Source, partition: Partition, lake: Lake) -> IngestResult:
    """Stage one partition from an open source.

    Raises:
        DataError: the source has no rows of the partition, or a column is missing. A retry cannot help.
        ConflictError: other processes kept the catalog busy. A retry can help.
    """
    import pyarrow as pa

    from pipelines.ingestion.progress_log import log_progress

    reader = source.read(partition)
    batches = log_progress(_check_not_empty(reader, dataset, source, partition), f"{dataset.staging} {partition}")
    rows = pa.RecordBatchReader.from_batches(reader.schema, batches)
    return report_commit(
        dataset.staging, partition, lake.write_partition(dataset.staging, partition, rows, dataset.key)
    )


def report_commit(table: str, partition: Partition, commit: Commit) -> IngestResult:
    """Log and return the result of a commit to the staging table; log a warning for each added or widened column."""
    changes = Changes(**asdict(commit.changes))
    result = IngestResult(
        table=table,
        partition=partition,
        rows=commit.rows,
        snapshot_id=commit.snapshot_id,
        changed=commit.changed,
        new=commit.changed and changes == Changes(added=commit.rows),
        changes=changes,
        columns=list(commit.column_changes),
    )
    outcome = "new" if result.new else f"changed: {changes}" if result.changed else "unchanged"
    log.info("%s %s: %d rows, %s", table, partition, result.rows, outcome)
    for line in result.columns:
        log.warning("%s %s: %s", table, partition, line)
    return result


def _check_not_empty(
    batches: Iterable[pa.RecordBatch], dataset: Dataset, source: Source, partition: Partition
) -> Iterator[pa.RecordBatch]:
    """Yield the batches; if they have no row, raise DataError with the days that the source holds."""
    row_count = 0
    for batch in batches:
        row_count += batch.num_rows
        yield batch
    if not row_count:
        raise DataError(
            f"the source of {dataset.name} has no rows for {partition}{_describe_days(source)}.", "Nothing was staged."
        )


def _describe_days(source: Source) -> str:
    """Describe the days that the source holds; empty if the source cannot find them without much work."""
    find_day_range = getattr(source, "find_day_range", None)
    days = find_day_range() if find_day_range else None
    return f": it holds {days.first} to {days.last}" if days else ""
