"""Stages one partition of a dataset: from its source into the staging table.

Idempotent: an unchanged partition commits nothing. Nothing is published here: `validate` alone does that.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pipelines.contract import Result, Spec
from pipelines.dataset import dataset
from pipelines.errors import DataError
from pipelines.log import log


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
    """Iceberg snapshot of the staging table that holds the partition."""
    changed: bool
    """False where the lake held the same rows already."""


def run(spec: IngestSpec) -> IngestResult:
    """The partition's rows are in the staging table, and only they.

    Raises:
        DataError: the day is outside the source or empty, or a column is missing. A retry cannot help.
        ConflictError: the catalog stayed busy. A retry can help.
    """
    from pipelines.lake import Lake

    chosen = dataset(spec.dataset)
    source = chosen.source(spec.folder)
    first, last = source.span()
    if not first <= spec.partition <= last:
        raise DataError(f"the source of {spec.dataset} has no {spec.partition}: it holds {first} to {last}.")
    rows = source.read(spec.partition)
    if not rows.num_rows:
        raise DataError(f"the source of {spec.dataset} has no rows for {spec.partition}.", "Nothing was staged.")
    commit = Lake.open().write(chosen.staging, spec.partition, rows)
    log.info("%s %s: %d rows, %s", chosen.staging, spec.partition, rows.num_rows, "new" if commit.changed else "same")
    return IngestResult(
        table=chosen.staging,
        partition=spec.partition,
        rows=rows.num_rows,
        snapshot_id=commit.snapshot_id,
        changed=commit.changed,
    )
