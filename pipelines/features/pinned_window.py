"""Define the window of a training: the parameters that choose its days, and the file that pins it to a lake snapshot.

The module imports little, because many steps read a pinned window through it.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError

from pipelines.contract import Result, Spec, describe_errors
from pipelines.dataset import load_dataset
from pipelines.errors import DataError
from pipelines.parameters import MAX_DAYS
from pipelines.system.files import read_json
from pipelines.window import Days, Window


class WindowSpec(Spec):
    """The days that a training uses: the fields of section `snapshot` of params.yaml."""

    dataset: str
    """Dataset whose published table is pinned to a snapshot."""
    as_of: dt.date
    """Moment of training: the midnight (UTC) that begins this day."""
    train_days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 60
    """Number of training days. If the data starts later than the first of these days, fewer days are used. If
    partitions are months, this number and `holdout_days` are rounded to whole months."""
    holdout_days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 28
    """Number of holdout days. `label_delay_days` days lie between the training days and the holdout."""
    label_delay_days: Annotated[int, Field(ge=0, le=MAX_DAYS)] = 1
    """Days until the label of a day is known: 1 if it becomes known during the next day."""
    min_train_days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 14
    """Smallest number of training days that is accepted."""
    max_missing_days: Annotated[int, Field(ge=0, le=MAX_DAYS)] = 0
    """Largest number of days (months, if partitions are months) of the window that may be unpublished, or published
    only in part, for example because validation refused them."""
    missing: Literal["fail", "ingest"] = "fail"
    """What to do about unpublished days: fail, or ingest and validate them first."""
    file: Path = Path("data/snapshot.json")
    """File to write."""

    def compute_window(self) -> Window:
        """Compute the window, before it is clipped to the days that are published.

        Raises:
            SpecError: there is no such dataset. A retry cannot help.
        """
        unit = load_dataset(self.dataset).partition
        return Window.compute(self.as_of, self.train_days, self.holdout_days, self.label_delay_days, unit)


class PinnedWindow(Result):
    """The window of one training, pinned to a snapshot of the lake; the content of data/snapshot.json."""

    dataset: str
    """Name of the dataset."""
    table: str
    """Name of the published table."""
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
    """Number of rows from the first training day to the last holdout day, including the gap between the two."""
    missing_days: int
    """Number of days (months, if partitions are months) of the window that are not published completely."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file that the step `snapshot` wrote.

        Raises:
            DataError: the file does not exist, or is not a snapshot. A retry cannot help.
        """
        origin = "the step `snapshot` writes it"
        try:
            return cls.model_validate(read_json(path, origin))
        except ValidationError as error:
            raise DataError(f"{path} is not a snapshot ({describe_errors(error.errors())}): {origin}.") from None

    @property
    def label_delay_days(self) -> int:
        """Days between the last training day and the first holdout day.

        These are the `label_delay_days` of the `WindowSpec`, or more if partitions are months.
        """
        return (self.holdout_first - self.train_last).days - 1

    def get_window(self) -> Window:
        """Return the days of training and holdout as a window."""
        train, holdout = Days(self.train_first, self.train_last), Days(self.holdout_first, self.holdout_last)
        return Window(self.as_of, train, holdout)
