"""The window of a training: which days are chosen, and the file that pins them at a snapshot of the lake.

Light to import: everything that is derived from a pinned window reads it through this module.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError

from pipelines.contract import Result, Spec, describe_errors
from pipelines.errors import DataError
from pipelines.system.files import read_json
from pipelines.window import Days, Window


class WindowSpec(Spec):
    """Which days a training uses, as section `snapshot` of params.yaml has it."""

    dataset: str = "flights"
    """Dataset whose published table is pinned."""
    as_of: dt.date
    """Moment of training: the midnight (UTC) on which this day begins."""
    train_days: Annotated[int, Field(ge=1)] = 60
    """Days of training; fewer where the data starts later."""
    holdout_days: Annotated[int, Field(ge=1)] = 28
    """Days of holdout, after those of training."""
    label_delay_days: Annotated[int, Field(ge=0)] = 1
    """Days after which the label of a day is known."""
    min_train_days: Annotated[int, Field(ge=1)] = 14
    """Fewest days of training that are accepted."""
    max_missing_days: Annotated[int, Field(ge=0)] = 0
    """Most days of the window that may be unpublished (because validation refused them, for example)."""
    missing: Literal["fail", "ingest"] = "fail"
    """What to do about unpublished days: fail, or ingest and validate them first."""
    file: Path = Path("data/snapshot.json")
    """File to write."""

    def window(self) -> Window:
        """Compute the window, before it is clipped to the days that are published."""
        return Window.compute(self.as_of, self.train_days, self.holdout_days, self.label_delay_days)


class PinnedWindow(Result):
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
        """Read the file that the step `snapshot` wrote.

        Raises:
            DataError: the file does not exist, or holds something else. A retry cannot help.
        """
        origin = "the step `snapshot` writes it"
        try:
            return cls.model_validate(read_json(path, origin))
        except ValidationError as error:
            raise DataError(f"{path} is not a snapshot ({describe_errors(error.errors())}): {origin}.") from None

    def window(self) -> Window:
        """Return the days of training and holdout as a window."""
        train, holdout = Days(self.train_first, self.train_last), Days(self.holdout_first, self.holdout_last)
        return Window(self.as_of, train, holdout)
