"""Pin the data of a training: which days, as of which moment, at which snapshot of the lake.

Training as of D uses only rows whose label was known before D (see `pipelines.window`). The step writes
data/snapshot.json, on which all later stages depend. Idempotent: the same days, unchanged, give the same file.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError
from pipelines.features.pinned_window import PinnedWindow, WindowSpec
from pipelines.partitions import Hour, Partition, get_date, list_partitions
from pipelines.system.log import log
from pipelines.window import DAY, Window


class SnapshotSpec(WindowSpec):
    """The moment of the training, and how many days it uses."""


class SnapshotResult(PinnedWindow):
    """Pinned data, as in data/snapshot.json."""


def run(spec: SnapshotSpec) -> SnapshotResult:
    """Pin the days and the lake's snapshot of a training, and write them to `spec.file`.

    Raises:
        DataError: more days of the window are unpublished than is allowed, or the published table begins too late for
            `min_train_days`. A retry helps once the days are published.
    """
    from pipelines.lake import Lake
    from pipelines.system.files import write_json

    dataset, lake = load_dataset(spec.dataset), Lake.open()
    window = spec.compute_window()
    if dataset.partition == "month":
        log.info("%s has partitions by month, so train_days and holdout_days are rounded: %s", dataset.name, window)
    _check_length(spec, window, f"the window is {window}.")  # before days are ingested, which takes time
    if spec.missing == "ingest":
        published_partitions = lake.count_rows_by_partition(dataset.table, dataset.partition)
        _ingest_missing_partitions(dataset, window, published_partitions, spec.max_missing_days)
    row_counts = lake.count_rows_by_partition(dataset.table, dataset.partition)
    window = _clip_window(spec, window, dataset, row_counts)
    missing_days = _count_missing_days(spec, window, dataset, row_counts)
    result = SnapshotResult(
        dataset=spec.dataset,
        table=dataset.table,
        snapshot_id=lake.pin_window(dataset.table, window.all_days.first, window.all_days.last),
        as_of=spec.as_of,
        train_first=window.train.first,
        train_last=window.train.last,
        holdout_first=window.holdout.first,
        holdout_last=window.holdout.last,
        rows=sum(row_counts.get(partition, 0) for partition in list_partitions(window.all_days, dataset.partition)),
        missing_days=missing_days,
    )
    write_json(spec.file, result.model_dump(mode="json"))
    log.info("as of %s: %s, %d rows of snapshot %d", spec.as_of, window, result.rows, result.snapshot_id)
    return result


def _clip_window(
    spec: SnapshotSpec, window: Window, dataset: Dataset, published_partitions: Collection[Partition]
) -> Window:
    """Remove days before the first published day from the window; raise an error if too few training days are left."""
    if not published_partitions:
        raise DataError(f"{dataset.table} is empty.", "Run `python -m pipelines backfill --help`.")
    first_day = _find_first_day(published_partitions)
    window = window.clip_to(first_day)
    _check_length(spec, window, f"{dataset.table} starts on {first_day} and the holdout on {window.holdout.first}.")
    return window


def _find_first_day(published_partitions: Collection[Partition]) -> dt.date:
    """Return the first published day. A day that lacks the hours before its first published hour does not count."""
    partition = min(published_partitions)
    return partition.day + DAY if isinstance(partition, Hour) and partition.hour else get_date(partition)


def _check_length(spec: SnapshotSpec, window: Window, reason: str) -> None:
    """Raise an error if the window has fewer training days than the training needs."""
    if len(window.train) < spec.min_train_days:
        raise DataError(
            f"training as of {spec.as_of} would have {len(window.train)} days, but needs {spec.min_train_days}: "
            f"{reason}",
            "Choose a later as_of, more train_days, fewer holdout_days or a smaller min_train_days.",
        )


def _count_missing_days(
    spec: SnapshotSpec, window: Window, dataset: Dataset, published_partitions: Collection[Partition]
) -> int:
    """Count the days of the window with an unpublished partition; if partitions are months, the unpublished months.

    Raises:
        DataError: more than `spec.max_missing_days` days are missing. A retry helps once they are published.
    """
    partitions = list(list_partitions(window.all_days, dataset.partition))
    missing_partitions = [partition for partition in partitions if partition not in published_partitions]
    missing_days = {get_date(partition) for partition in missing_partitions}
    if len(missing_days) > spec.max_missing_days:
        first, last, count = missing_partitions[0], missing_partitions[-1], len(missing_partitions)
        raise DataError(
            f"{dataset.table} lacks {count} of the {len(partitions)} {dataset.partition}s {window.all_days} that "
            f"training as of {spec.as_of} needs, the first {first}.",
            f"Run `python -m pipelines backfill --dataset {dataset.table} --first {first} --last {last}`, or backfill "
            "the DAG.",
        )
    return len(missing_days)


def _ingest_missing_partitions(
    dataset: Dataset, window: Window, published_partitions: Collection[Partition], max_missing_days: int
) -> None:
    """Ingest and validate the window's unpublished partitions that the source has.

    If `max_missing_days` is more than 0, days that validation refuses are only logged.
    """
    from pipelines.steps import backfill

    dataset = load_dataset(dataset.table)  # the dataset in `rows_from`, if there is one, ingests the rows
    partitions = [
        partition
        for partition in dataset.open_source().list_partitions(window.all_days)
        if partition not in published_partitions
    ]
    if partitions:
        try:
            backfill.run(backfill.BackfillSpec(dataset=dataset.name, first=partitions[0], last=partitions[-1]))
        except DataError as error:
            if not max_missing_days:
                raise
            log.warning("%s", error)
