"""Pins the data of a training run: which days, as of which moment, at which snapshot of the lake.

Training as of D sees only rows whose label was known before D (see `pipelines.window`). Written to
data/snapshot.json, which everything derived depends on. Idempotent: the same days unchanged give the same file.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError

from pipelines.contract import Result, Spec, describe_errors
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError
from pipelines.steps import backfill
from pipelines.system.log import log
from pipelines.window import Days, Window


class SnapshotSpec(Spec):
    """Which moment, and how many days."""

    dataset: str = "flights"
    """Dataset whose published table is pinned."""
    as_of: dt.date
    """Moment of training: the midnight (UTC) on which this day begins."""
    train_days: Annotated[int, Field(ge=1)] = 60
    """Days of training; fewer where the data starts later."""
    holdout_days: Annotated[int, Field(ge=1)] = 28
    """Days of holdout, after those of training."""
    label_delay_days: Annotated[int, Field(ge=0)] = 1
    """The label of a day becomes known during the day that many days later."""
    min_train_days: Annotated[int, Field(ge=1)] = 14
    """Fewer days of training than this are refused."""
    max_missing_days: Annotated[int, Field(ge=0)] = 0
    """Days of the window that may be unpublished (refused by validation, say)."""
    missing: Literal["fail", "ingest"] = "fail"
    """What to do about unpublished days: fail, or ingest and validate them first."""
    file: Path = Path("data/snapshot.json")
    """File to write."""

    def window(self) -> Window:
        """Compute the window, before it is clipped to the days that are published."""
        return Window.of(self.as_of, self.train_days, self.holdout_days, self.label_delay_days)


class SnapshotResult(Result):
    """Pinned data, as in data/snapshot.json."""

    dataset: str
    """The dataset."""
    table: str
    """Published table."""
    snapshot_id: int
    """Iceberg snapshot to read the table at."""
    as_of: dt.date
    """Moment of training."""
    train_first: dt.date
    """First day of training."""
    train_last: dt.date
    """Last day of training."""
    holdout_first: dt.date
    """First day of the holdout."""
    holdout_last: dt.date
    """Last day of the holdout."""
    rows: int
    """Rows of all these days."""
    missing_days: int
    """Days of the window that are not published."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """What `run` wrote to `path`.

        Raises:
            DataError: it is not there, or holds something else.
        """
        from pipelines.system.files import read_json

        wanted = "the step `snapshot` writes it"
        try:
            return cls.model_validate(read_json(path, wanted))
        except ValidationError as error:
            raise DataError(f"{path} is no snapshot ({describe_errors(error.errors())}): {wanted}.") from None

    def window(self) -> Window:
        """The window of the days."""
        train, holdout = Days(self.train_first, self.train_last), Days(self.holdout_first, self.holdout_last)
        return Window(self.as_of, train, holdout)


def run(spec: SnapshotSpec) -> SnapshotResult:
    """`spec.file` names the days and the lake's snapshot to train from.

    Raises:
        DataError: days are unpublished, or too few are left. A retry helps once they are published.
    """
    from pipelines.lake import Lake
    from pipelines.system.files import write_json

    chosen, lake = load_dataset(spec.dataset), Lake.open()
    window = spec.window()
    if spec.missing == "ingest":
        _fill(chosen, window, lake.count_rows_by_day(chosen.published).keys(), spec.max_missing_days)
    published = lake.count_rows_by_day(chosen.published)
    window = _clip_window(spec, window, chosen, published)
    missing = [day for day in window.all if day not in published]
    if len(missing) > spec.max_missing_days:
        raise DataError(
            f"{chosen.published} lacks {len(missing)} of the {len(window.all)} days {window.all} that training as of "
            f"{spec.as_of} needs, the first {missing[0]}.",
            f"Run `python -m pipelines backfill --first {missing[0]} --last {missing[-1]}`, or backfill the DAG.",
        )
    result = SnapshotResult(
        dataset=spec.dataset,
        table=chosen.published,
        snapshot_id=lake.pin_window(chosen.published, window.all.first, window.all.last),
        as_of=spec.as_of,
        train_first=window.train.first,
        train_last=window.train.last,
        holdout_first=window.holdout.first,
        holdout_last=window.holdout.last,
        rows=sum(published.get(day, 0) for day in window.all),
        missing_days=len(missing),
    )
    write_json(spec.file, result.model_dump(mode="json"))
    log.info("as of %s: %s, %d rows of snapshot %d", spec.as_of, window, result.rows, result.snapshot_id)
    return result


def _clip_window(spec: SnapshotSpec, window: Window, chosen: Dataset, published: dict[dt.date, int]) -> Window:
    """The window from the first day that is published; refused where too little is left."""
    if not published:
        raise DataError(f"{chosen.published} is empty.", "Run `python -m pipelines backfill --help`.")
    window = window.clip_to(min(published))
    if len(window.train) < spec.min_train_days:
        raise DataError(
            f"training as of {spec.as_of} would have {len(window.train)} days of the {spec.min_train_days} demanded: "
            f"{chosen.published} starts on {min(published)} and the holdout on {window.holdout.first}.",
            "Choose a later as_of, fewer holdout_days or a smaller min_train_days.",
        )
    return window


def _fill(chosen: Dataset, window: Window, published: object, may_miss: int) -> None:
    """Ingests and validates the days of the window that the source has and the lake has not; some may be refused."""
    have: set[dt.date] = set(published)  # type: ignore[call-overload]
    wanted = [day for day in chosen.open_source().partitions(window.all) if day not in have]
    if wanted:
        try:
            backfill.run(backfill.BackfillSpec(dataset=chosen.name, first=wanted[0], last=wanted[-1]))
        except DataError as error:
            if not may_miss:
                raise
            log.warning("%s", error)
