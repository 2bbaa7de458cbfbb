"""Work that a person starts on the embedded stack: it is started for it, and stopped after it."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import ClassVar

from stack import display
from stack.airflow.backfill import Backfill
from stack.airflow.client import AirflowApi
from stack.airflow.dag_parsing import wait_until_parsed
from stack.errors import UnavailableError
from stack.jobs.request import Request
from stack.layout import Layout
from stack.services import locks, start_stop
from stack.services.commands import USER, password
from stack.services.health import raise_if_dead
from stack.services.ports import ANY
from stack.services.record import Stack, write_atomically

WEATHER, INGEST, TRAIN = "weather_ingest", "flights_ingest", "flights_train"
WEATHER_RUNS = 4
"""Months at once."""
INGEST_RUNS = 6
"""Days at once. More only wait for the cores, and for SQLite."""
PROMOTE = {"promote_in_backfill": True}
"""Where what would have happened is played; a backfill by itself moves no alias."""


@dataclass
class Session:
    """A stack that is up, and how to ask things of it."""

    stack: Stack
    api: AirflowApi
    check: Callable[[], None]
    """Called while waiting; raises when there is no point in waiting."""

    def unpause(self, *dag_ids: str) -> None:
        """The DAGs were read by this stack's Airflow, and their runs are started."""
        wait_until_parsed(self.api, dag_ids, self.stack.started_at, self.check)

    def backfill(self, dag_id: str, days: Sequence[date], runs: int, conf: dict[str, bool] | None = None) -> Backfill:
        """The runs of these days, `runs` of them at once."""
        return Backfill(self.api, dag_id, days, runs, self.stack.started_at, self.check, conf or {})


@dataclass
class Job(ABC):
    """One run of it.

    Attributes:
        layout: folders of the stack.
        request: what shall be done.
        phases: seconds that each phase took, in their order.
    """

    name: ClassVar[str]
    layout: Layout
    request: Request
    phases: dict[str, float] = field(default_factory=dict, init=False)

    @abstractmethod
    def drive(self, session: Session) -> None:
        """Does the work."""

    def run(self) -> None:
        """Does the work on a stack that is up, prints what came of it, and leaves NAME.json. Idempotent.

        Raises:
            TaskFailedError: a task of a DAG failed.
            RequestError: a DAG cannot be imported, or its schedule has no such run.
            UnavailableError: a service failed, or another command changes the stack.
        """
        self.layout.prepare()
        with locks.exclusive(self.layout.lock("demo"), f"stack {self.name}"):
            outcome = "failed"
            try:
                self._work()
                outcome = "done"
            finally:
                self._finish(outcome)

    def ingest(self, session: Session) -> None:
        """The days are published."""
        with self.phase("weather"), display.progress("months of weather") as bar:
            # Before the flights, which are checked against it.
            session.backfill(WEATHER, self.request.months, WEATHER_RUNS).complete(bar)
        with self.phase("ingest"), display.progress("ingesting days") as bar:
            session.backfill(INGEST, self.request.days, INGEST_RUNS).complete(bar)

    def train(self, session: Session, moments: Sequence[date], conf: dict[str, bool]) -> None:
        """Models as of the moments, one after the other: each is compared with the champion of the one before it."""
        with self.phase("train"), display.progress("training runs") as bar:
            for done, moment in enumerate(moments):
                bar(done, len(moments), f"as of {moment}")
                session.backfill(TRAIN, [moment], 1, conf).complete(lambda *_: None)
            bar(len(moments), len(moments), "")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What happens inside counts as this phase's time."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = round(self.phases.get(name, 0.0) + time.monotonic() - began, 2)

    def _work(self) -> None:
        with self.phase("up"), display.starting() as watch:
            stack, _ = start_stop.up(self.layout, ANY, watch)
        if self.request.keep:
            self.layout.keep.touch()
        display.console().print(display.urls(self.layout, stack))  # already now: to watch it work

        def check() -> None:
            raise_if_dead(self.layout, stack)

        try:
            session = Session(stack, AirflowApi(stack.airflow_url, USER, password(self.layout)), check)
            with self.phase("parse"):
                session.unpause(WEATHER, INGEST, TRAIN)
            self.drive(session)
        except UnavailableError:
            # Most often because a service died: then say which.
            raise_if_dead(self.layout, stack)
            raise
        if self.layout.keep.exists():
            display.console().print(display.urls(self.layout, stack))

    def _finish(self, outcome: str) -> None:
        """Stops the stack, unless a person wants it up, and writes down what everything took."""
        kept = self.layout.keep.exists()
        if not kept:
            with self.phase("down"), start_stop.uninterrupted():
                start_stop.down(self.layout)
        total = round(sum(self.phases.values()), 2)
        report = {"outcome": outcome, "days": len(self.request.days), "phases_s": self.phases, "total_s": total}
        write_atomically(self.layout.report(self.name), json.dumps(report, indent=2) + "\n", mode=0o644)
        took = ", ".join(f"{name} {seconds:.0f}" for name, seconds in self.phases.items())
        left = "The stack is still up; `make down` stops it." if kept else "Nothing is left running."
        display.console().print(f"{outcome.capitalize()} in {total:.0f} s ({took}). {left}")
