"""What a job shall do, checked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Self

from stack.errors import RequestError

YEAR_ENDS = date(2013, 12, 31)
"""Last day that the DAGs have a run for."""


@dataclass(frozen=True)
class Request:
    """What shall be done: days from `start` to `end`, both included, and training as of each moment."""

    start: date
    end: date
    as_of: list[date]
    keep: bool = False

    @classmethod
    def checked(cls, start: date, end: date, as_of: list[date], keep: bool) -> Self:
        """The request, with the moments in order.

        Raises:
            RequestError: the days are in the wrong order, or a moment is not the first of a month.
        """
        if start > end:
            raise RequestError(f"--from {start} is after --to {end}.")
        if odd := [day for day in as_of if day.day != 1]:
            raise RequestError(f"--as-of {odd[0]} is not the first of a month, when flights_train runs.")
        return cls(start, end, sorted(set(as_of)), keep)

    @property
    def days(self) -> list[date]:
        """All days to ingest."""
        return [self.start + timedelta(days=n) for n in range((self.end - self.start).days + 1)]

    @property
    def months(self) -> list[date]:
        """The months whose weather the days' flights had, by their firsts. Late flights depart tomorrow in UTC."""
        days = [*self.days, self.end + timedelta(days=1)]
        return sorted({day.replace(day=1) for day in days if day <= YEAR_ENDS})
