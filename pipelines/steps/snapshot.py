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
from pipelines.system.log import log
from pipelines.window import Window


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
    _check_length(spec, window, f"the window is {window}.")  # before days are ingested
    if spec.missing == "ingest":
        _ingest_missing_days(dataset, window, lake.count_rows_by_day(dataset.published), spec.max_missing_days)
    rows_by_day = lake.count_rows_by_day(dataset.published)
    window = _clip_window(spec, window, dataset, rows_by_day)
    missing_days = _count_missing_days(spec, window, dataset, rows_by_day)
    result = SnapshotResult(
        dataset=spec.dataset,
        table=dataset.published,
        snapshot_id=lake.pin_window(dataset.published, window.all_days.first, window.all_days.last),
        as_of=spec.as_of,
        train_first=window.train.first,
        train_last=window.train.last,
        holdout_first=window.holdout.first,
        holdout_last=window.holdout.last,
        rows=sum(rows_by_day.get(day, 0) for day in window.all_days),
        missing_days=missing_days,
    )
    write_json(spec.file, result.model_dump(mode="json"))
    log.info("as of %s: %s, %d rows of snapshot %d", spec.as_of, window, result.rows, result.snapshot_id)
    return result


def _clip_window(spec: SnapshotSpec, window: Window, dataset: Dataset, published_days: Collection[dt.date]) -> Window:
    """Cut the days before the first published day off the window; raise an error if too few training days are left."""
    if not published_days:
        raise DataError(f"{dataset.published} is empty.", "Run `python -m pipelines backfill --help`.")
    window = window.clip_to(min(published_days))
    first = min(published_days)
    _check_length(spec, window, f"{dataset.published} starts on {first} and the holdout on {window.holdout.first}.")
    return window


def _check_length(spec: SnapshotSpec, window: Window, reason: str) -> None:
    """Raise an error if the window has fewer training days than the training needs."""
    if len(window.train) < spec.min_train_days:
        raise DataError(
            f"training as of {spec.as_of} would have {len(window.train)} days, but needs {spec.min_train_days}: "
            f"{reason}",
            "Choose a later as_of, more train_days, fewer holdout_days or a smaller min_train_days.",
        )


def _count_missing_days(
    spec: SnapshotSpec, window: Window, dataset: Dataset, published_days: Collection[dt.date]
) -> int:
    """Count the unpublished days of the window; raise an error if there are more than `spec.max_missing_days`."""
    missing_days = [day for day in window.all_days if day not in published_days]
    if len(missing_days) > spec.max_missing_days:
        raise DataError(
            f"{dataset.published} lacks {len(missing_days)} of the {len(window.all_days)} days {window.all_days} that "
            f"training as of {spec.as_of} needs, the first {missing_days[0]}.",
            f"Run `python -m pipelines backfill --dataset {dataset.name} --first {missing_days[0]} "
            f"--last {missing_days[-1]}`, or backfill the DAG.",
        )
    return len(missing_days)


def _ingest_missing_days(
    dataset: Dataset, window: Window, published_days: Collection[dt.date], max_missing_days: int
) -> None:
    """Ingest and validate the window's unpublished days that the source has.

    If `max_missing_days` is more than 0, days that validation refuses are only logged.
    """
    from pipelines.steps import backfill

    days = [day for day in dataset.open_source().list_partitions(window.all_days) if day not in published_days]
    if days:
        try:
            backfill.run(backfill.BackfillSpec(dataset=dataset.name, first=days[0], last=days[-1]))
        except DataError as error:
            if not max_missing_days:
                raise
            log.warning("%s", error)
