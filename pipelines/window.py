"""The window of a training run: which days it may see as of a moment."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Days:
    """Days from `first` to `last`, both included."""

    first: dt.date
    last: dt.date

    def __iter__(self) -> Iterator[dt.date]:
        """Each day in order."""
        return (self.first + n * DAY for n in range(len(self)))

    def __len__(self) -> int:
        """Number of days; 0 where `last` is before `first`."""
        return max(0, (self.last - self.first).days + 1)

    def __str__(self) -> str:
        """FIRST..LAST."""
        return f"{self.first}..{self.last}"


@dataclass(frozen=True)
class Window:
    """Days to train on, and the holdout to evaluate on, as of a moment.

    The label of day d becomes known during day d + delay, so as of D (its midnight) the last day of use is
    D - delay - 1. The same gap lies between training and holdout: a model evaluated from day H on could not have
    known more on H.
    """

    as_of: dt.date
    train: Days
    holdout: Days

    @classmethod
    def of(cls, as_of: dt.date, train_days: int, holdout_days: int, label_delay_days: int) -> Self:
        """The window that ends with the last day whose label is known before `as_of`."""
        last = as_of - (label_delay_days + 1) * DAY
        holdout = Days(last - (holdout_days - 1) * DAY, last)
        until = holdout.first - (label_delay_days + 1) * DAY
        return cls(as_of, Days(until - (train_days - 1) * DAY, until), holdout)

    def starting(self, first: dt.date) -> Window:
        """The same window, clipped where the data starts later."""
        return Window(self.as_of, Days(max(first, self.train.first), self.train.last), self.holdout)

    @property
    def all(self) -> Days:
        """From the first day of training to the last of the holdout."""
        return Days(self.train.first, self.holdout.last)

    def __str__(self) -> str:
        """TRAIN | HOLDOUT."""
        return f"{self.train} | {self.holdout}"
