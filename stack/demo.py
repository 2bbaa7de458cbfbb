"""The main job, end to end, on the embedded stack."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Self

from stack import display, lifecycle, locks, mlflow_api
from stack.airflow_api import AirflowApi
from stack.backfill import Backfill
from stack.errors import RequestError, UnavailableError
from stack.forecast import forecast
from stack.health import raise_if_dead
from stack.layout import Layout
from stack.parsing import wait_until_parsed
from stack.ports import ANY
from stack.results import table
from stack.services import USER, password
from stack.state import Stack, write_atomically

WEATHER, INGEST, TRAIN = "weather_ingest", "flights_ingest", "flights_train"
WEATHER_RUNS = 4
"""Months at once."""
INGEST_RUNS = 6
"""Days at once. More only wait for the cores, and for SQLite."""
PROMOTE = {"promote_in_backfill": True}
"""The demo plays what would have happened; a backfill by itself moves no alias."""
YEAR_ENDS = date(2013, 12, 31)
"""Last day that the DAGs have a run for."""


@dataclass(frozen=True)
class Request:
    """What the demo shall do: days from `start` to `end`, both included, then training as of each moment."""

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
            raise RequestError(f"--as-of {odd[0]} is not the first of a month, when {TRAIN} runs.")
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


@dataclass
class Demo:
    """One run of the main job."""

    layout: Layout
    request: Request
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds that each phase took, in their order."""

    def run(self) -> None:
        """Leaves a trained model for each moment, a printed table, and demo.json. Idempotent.

        Raises:
            TaskFailedError: a task of a DAG failed.
            RequestError: a DAG cannot be imported, or its schedule has no such run.
            UnavailableError: a service failed, or another command changes the stack.
        """
        self.layout.prepare()
        with locks.exclusive(self.layout.lock("demo"), "stack demo"):
            outcome = "failed"
            try:
                self._work()
                outcome = "done"
            finally:
                self._finish(outcome)

    def _work(self) -> None:
        with self._phase("up"), display.starting() as watch:
            stack, _ = lifecycle.up(self.layout, ANY, watch)
        if self.request.keep:
            self.layout.keep.touch()
        display.console().print(display.urls(self.layout, stack))  # already now: to watch it work
        try:
            self._drive(stack)
        except UnavailableError:
            # Most often because a service died: then say which.
            raise_if_dead(self.layout, stack)
            raise

    def _drive(self, stack: Stack) -> None:
        def check() -> None:
            raise_if_dead(self.layout, stack)

        api = AirflowApi(stack.airflow_url, USER, password(self.layout))
        with self._phase("parse"):
            wait_until_parsed(api, [WEATHER, INGEST, TRAIN], stack.started_at, check)
        with self._phase("weather"), display.progress("months of weather") as bar:
            # Before the flights, which are checked against it.
            Backfill(api, WEATHER, self.request.months, WEATHER_RUNS, stack.started_at, check).complete(bar)
        with self._phase("ingest"), display.progress("ingesting days") as bar:
            Backfill(api, INGEST, self.request.days, INGEST_RUNS, stack.started_at, check).complete(bar)
        display.console().print(forecast(self.layout, stack, TRAIN, len(self.request.as_of)))
        with self._phase("train"), display.progress("training runs") as bar:
            self._train(api, stack, check, bar)
        with self._phase("report"):
            rows = mlflow_api.rows(stack.mlflow_url, self.request.as_of)
        out = display.console()
        out.print(table(rows))
        if self.layout.keep.exists():
            out.print(display.urls(self.layout, stack))

    def _train(self, api: AirflowApi, stack: Stack, check: Callable[[], None], bar: display.Bar) -> None:
        """One after the other: a model is compared with the champion that the one before it made."""
        for done, moment in enumerate(self.request.as_of):
            bar(done, len(self.request.as_of), f"as of {moment}")
            Backfill(api, TRAIN, [moment], 1, stack.started_at, check, PROMOTE).complete(lambda *_: None)
        bar(len(self.request.as_of), len(self.request.as_of), "")

    def _finish(self, outcome: str) -> None:
        """Stops the stack, unless a person wants it up, and writes down what everything took."""
        kept = self.layout.keep.exists()
        if not kept:
            with self._phase("down"), lifecycle.uninterrupted():
                lifecycle.down(self.layout)
        total = round(sum(self.phases.values()), 2)
        report = {
            "outcome": outcome,
            "days": len(self.request.days),
            "phases_s": self.phases,
            "total_s": total,
        }
        write_atomically(self.layout.demo_report, json.dumps(report, indent=2) + "\n", mode=0o644)
        took = ", ".join(f"{name} {seconds:.0f}" for name, seconds in self.phases.items())
        left = "The stack is still up; `make down` stops it." if kept else "Nothing is left running."
        display.console().print(f"{outcome.capitalize()} in {total:.0f} s ({took}). {left}")

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = round(time.monotonic() - began, 2)
