"""Stages what changed in a source without partitions: reads beyond the watermark, and upserts by key into its days.

The watermark moves only after every commit, so a sync that was killed repeats and loses nothing. Idempotent: rows that
the lake has already commit nothing. Nothing is published here: `validate` does that, for each day that is named.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.steps.ingest import IngestResult, report_commit
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.source import ChangingSource


class SyncSpec(Spec):
    """What to read, and from where on."""

    dataset: str
    """Package under pipelines/ that holds the source."""
    watermark: str | None = None
    """Largest cursor that was read before, empty: read all. Not given: the file of the last sync says, and is kept."""
    folder: Path | None = None
    """Folder of the source's files; the source's own place where it is not given."""


class SyncResult(Result):
    """Staged changes."""

    table: str
    """Staging table."""
    rows: int
    """Rows that were read."""
    watermark: str
    """Largest cursor read so far; empty where nothing ever was."""
    partitions: list[dt.date]
    """Days that the rows belong to, sorted. One that did not change is named too: it may not be published yet."""
    changed: list[IngestResult]
    """What was done to the days that changed."""


def run(spec: SyncSpec) -> SyncResult:
    """The staging table has the newest row of each key of the source, and the watermark says so.

    Raises:
        SpecError: the source has partitions.
        DataError: a row has no day or no cursor, or a column is gone. A retry cannot help.
        ConflictError: another sync of the dataset is running, or the catalog stayed busy. A retry can help.
    """
    from pipelines.ingestion import watermarks

    chosen = load_dataset(spec.dataset)
    source = chosen.open_changing_source(spec.folder)
    with watermarks.hold_sync_lock(chosen.name):
        since = (watermarks.read(chosen.name) if spec.watermark is None else spec.watermark) or ""
        result = _stage_changes(chosen, source, since)
        if spec.watermark is None and result.watermark:
            watermarks.write(chosen.name, result.watermark)
    return result


def _stage_changes(chosen: Dataset, source: ChangingSource, since: str) -> SyncResult:
    from pipelines.ingestion import changes
    from pipelines.lake import Lake

    lake, done = Lake.open(), []
    held = lake.count_rows_by_day(chosen.staging)
    known = lake.read_schema(chosen.staging) if held else None
    with changes.read_changes(source, since or None, f"{chosen.name} since {since or 'ever'}", known) as came:
        for day in came.days:
            with changes.merge_changes(lake, chosen, came, day, day in held) as rows:
                done.append(
                    report_commit(chosen.staging, day, lake.write_partition(chosen.staging, day, rows, chosen.key))
                )
    newest = came.watermark or since
    log.info("%s: %d rows of %d days, read up to %s", chosen.staging, came.rows, len(done), newest or "nothing")
    return SyncResult(
        table=chosen.staging,
        rows=came.rows,
        watermark=newest,
        partitions=came.days,
        changed=[one for one in done if one.changed],
    )
