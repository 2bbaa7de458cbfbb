"""Compute the window of a training run: the days that it may use as of a date."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

DAY = dt.timedelta(days=1)
Unit = Literal["hour", "day", "month"]
"""The length of a partition."""
DAYS_PER_MONTH = 365.2425 / 12
"""Mean number of days of a month in the Gregorian calendar."""


@dataclass(frozen=True)
class Days:
    """A range of days from `first` to `last`, both included."""

    first: dt.date
    last: dt.date

    def __iter__(self) -> Iterator[dt.date]:
        """Iterate over the days in ascending order."""
        return (self.first + number * DAY for number in range(len(self)))

    def __len__(self) -> int:
        """Count the days; 0 if `last` is before `first`."""
        return max(0, (self.last - self.first).days + 1)

    def __str__(self) -> str:
        """Format as FIRST..LAST."""
        return f"{self.first}..{self.last}"


@dataclass(frozen=True)
class Window:
    """The days to train on, and the holdout to evaluate on, as of a date.

    The label of day d becomes known during day d + delay. So as of D (at midnight), the last day with known labels is
    D - delay - 1. The same gap is between training and holdout: a model that scores the holdout from its first day H on
    could not have been trained on labels that become known on H or later.

    If partitions are months, the window has whole months. A month is used if the label of its last day is known.
    """

    as_of: dt.date
    train: Days
    holdout: Days

    @classmethod
    def compute(
        cls, as_of: dt.date, train_days: int, holdout_days: int, label_delay_days: int, unit: Unit = "day"
    ) -> Self:
        """Compute the window that ends with the last day whose label is known before `as_of`.

        Args:
            as_of: date of the training; nothing that became known on or after this date is used.
            train_days: days to train on, at least 1.
            holdout_days: days to evaluate on, at least 1.
            label_delay_days: days until the label of a day is known, 0 or more.
            unit: unit of the dataset's partitions. For months, the numbers of days are rounded to whole months.
        """
        if unit == "month":
            holdout = _find_last_months(as_of, count_months(holdout_days), label_delay_days)
            return cls(as_of, _find_last_months(holdout.first, count_months(train_days), label_delay_days), holdout)
        last_holdout_day = as_of - (label_delay_days + 1) * DAY
        holdout = Days(last_holdout_day - (holdout_days - 1) * DAY, last_holdout_day)
        last_train_day = holdout.first - (label_delay_days + 1) * DAY
        return cls(as_of, Days(last_train_day - (train_days - 1) * DAY, last_train_day), holdout)

    def clip_to(self, first: dt.date) -> Window:
        """Return the window without the training days before `first`, the first day that has data."""
        return Window(self.as_of, Days(max(first, self.train.first), self.train.last), self.holdout)

    @property
    def all_days(self) -> Days:
        """All days from the first training day to the last day of the holdout, with the gap between them."""
        return Days(self.train.first, self.holdout.last)

    def __str__(self) -> str:
        """Format as TRAIN | HOLDOUT."""
        return f"{self.train} | {self.holdout}"


def get_month_start(day: dt.date) -> dt.date:
    """Return the first day of the month of a day."""
    return day.replace(day=1)


def count_months(days: int) -> int:
    """Return the number of whole months that is nearest to a number of days, at least 1."""
    return max(1, round(days / DAYS_PER_MONTH))


def subtract_months(month_start: dt.date, count: int) -> dt.date:
    """Return the first day of the month that is `count` months before the month that begins on `month_start`."""
    months_since_year_0 = month_start.year * 12 + month_start.month - 1 - count
    return dt.date(months_since_year_0 // 12, months_since_year_0 % 12 + 1, 1)


def _find_last_months(moment: dt.date, count: int, label_delay_days: int) -> Days:
    """Return the last `count` months whose labels are all known when the day `moment` begins."""
    next_month = get_month_start(moment - label_delay_days * DAY)  # its labels are not all known
    return Days(subtract_months(next_month, count), next_month - DAY)
