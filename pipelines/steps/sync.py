"""Stage the changes of a source without partitions: read rows after the watermark, and upsert them into their days.

The watermark is updated only after all commits, so a sync that was killed can be repeated, and loses nothing.
Idempotent: if the lake has the rows already, nothing is committed. The step does not publish: `validate` publishes
each day in the result.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import SpecError
from pipelines.steps.ingest import IngestResult, report_commit
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.source import ChangingSource


class SyncSpec(Spec):
    """The dataset to read, and the cursor to start at."""

    dataset: str
    """Dataset whose source is read."""
    watermark: str | None = None
    """Cursor after which to read. Null: the watermark that the last sync stored. Empty: read all rows."""
    folder: Path | None = None
    """Folder of the source's files; by default, the folder that the dataset defines."""


class SyncResult(Result):
    """The rows that were read from the source, and the staged days that they changed."""

    table: str
    """Staging table."""
    rows: int
    """Rows that were read."""
    watermark: str
    """Largest cursor read so far; empty if no row was ever read."""
    partitions: list[dt.date]
    """Days that the rows belong to, sorted. Unchanged days are included, because they may not be published yet."""
    changed: list[IngestResult]
    """Result of each day whose staged rows changed."""


def run(spec: SyncSpec) -> SyncResult:
    """Write the newest row of each key of the source to the staging table, and update the watermark.

    A watermark in the spec is used instead of the stored one. Then the stored watermark does not change.

    Raises:
        SpecError: the source has partitions, or the partitions of the dataset are not days. A retry cannot help.
        DataError: a row has no day or no cursor, or a column is missing. A retry cannot help.
        ConflictError: another sync of the dataset is running, or other processes kept the catalog busy. A retry can
            help.
    """
    from pipelines.ingestion import watermarks

    dataset = load_dataset(spec.dataset)
    if dataset.partition != "day":
        message = f"{dataset.name} has partitions by {dataset.partition}, and `sync` needs partitions by day."
        raise SpecError(message, "Set partition='day', or give the dataset a source with partitions for `ingest`.")
    source = dataset.open_changing_source(spec.folder)
    with watermarks.hold_sync_lock(dataset.name):
        last_watermark = (watermarks.read_watermark(dataset.name) if spec.watermark is None else spec.watermark) or ""
        result = stage_changes(dataset, source, last_watermark)
        if spec.watermark is None and result.watermark:
            watermarks.write_watermark(dataset.name, result.watermark)
    return result


def stage_changes(dataset: Dataset, source: ChangingSource, last_watermark: str) -> SyncResult:
    """Stage the rows of an open source that come after a watermark. The stored watermark does not change.

    Raises:
        DataError: a row has no day or no cursor, or a column is missing. A retry cannot help.
        ConflictError: other processes kept the catalog busy. A retry can help.
    """
    from pipelines.ingestion import changes
    from pipelines.lake import Lake

    lake, results = Lake.open(), []
    staged_days = lake.count_rows_by_day(dataset.staging).keys()
    schema = lake.read_schema(dataset.staging) if staged_days else None
    title = f"{dataset.name} after {last_watermark}" if last_watermark else dataset.name
    with changes.read_changes(source, last_watermark or None, title, schema) as changed_rows:
        for day in changed_rows.days:
            with changes.merge_changes(lake, dataset, changed_rows, day, has_partition=day in staged_days) as rows:
                commit = lake.write_partition(dataset.staging, day, rows, dataset.key)
                results.append(report_commit(dataset.staging, day, commit))
    watermark = changed_rows.watermark or last_watermark
    log.info(
        "%s: %d rows of %d days; watermark: %s", dataset.staging, changed_rows.rows, len(results), watermark or "none"
    )
    return SyncResult(
        table=dataset.staging,
        rows=changed_rows.rows,
        watermark=watermark,
        partitions=changed_rows.days,
        changed=[result for result in results if result.changed],
    )
