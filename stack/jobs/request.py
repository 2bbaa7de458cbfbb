"""Define and check the request of a job of the stack: the days to ingest, and the moments (as_of) of its trainings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Self

from stack.errors import RequestError

LAST_DAY = date(2013, 12, 31)
"""The last day for which the DAGs of the example have a run."""


@dataclass(frozen=True)
class Request:
    """The days and trainings of a job.

    Attributes:
        start: first day to ingest.
        end: last day to ingest.
        as_of: moments of the trainings, each the first of a month.
        keeps_running: whether the stack stays up afterwards.
        model: name of the model to train.
    """

    start: date
    end: date
    as_of: list[date]
    keeps_running: bool = False
    model: str = "flights"

    @classmethod
    def create(cls, start: date, end: date, as_of: list[date], keeps_running: bool, model: str = "flights") -> Self:
        """Return the request, with the moments sorted and without duplicates.

        Raises:
            RequestError: the days are in the wrong order, or a moment is not the first of a month. A retry cannot help.
        """
        if start > end:
            raise RequestError(f"--from {start} is after --to {end}.")
        if wrong_moments := [day for day in as_of if day.day != 1]:
            raise RequestError(
                f"--as-of {wrong_moments[0]} is not the first of a month: {model}_train runs only on such days."
            )
        return cls(start, end, sorted(set(as_of)), keeps_running, model)

    @property
    def train_dag(self) -> str:
        """The DAG that trains the model."""
        return f"{self.model}_train"

    @property
    def days(self) -> list[date]:
        """All days to ingest."""
        return [self.start + timedelta(days=number) for number in range((self.end - self.start).days + 1)]

    @property
    def months(self) -> list[date]:
        """The first days of the months of weather that the flights of these days need.

        The day after the last day needs weather, too: in UTC, an evening flight from New York departs on the next day.
        """
        days = [*self.days, self.end + timedelta(days=1)]
        return sorted({day.replace(day=1) for day in days if day <= LAST_DAY})
