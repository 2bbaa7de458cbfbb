"""The base of the jobs `demo` and `replay`: start the stack, do the work, report, and stop the stack."""

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
from stack.airflow.client import AirflowClient
from stack.airflow.dag_parsing import unpause_when_parsed
from stack.errors import UnavailableError
from stack.files import write_atomically
from stack.jobs.request import Request
from stack.layout import PROGRAM, Layout
from stack.services.commands import USER, read_password
from stack.services.locks import hold_lock
from stack.services.ports import ANY_PORTS
from stack.services.readiness import load_live_stack
from stack.services.record import Stack
from stack.services.start_stop import ignore_interrupts, start_stack, stop_stack

WEATHER_DAG, INGEST_DAG = "weather_ingest", "flights_ingest"
MAX_WEATHER_RUNS = 4
"""Largest number of months that are ingested at once."""
MAX_INGEST_RUNS = 6
"""Largest number of days that are ingested at once. More days would only wait for the cores, and for SQLite."""
PROMOTE_PARAMS = {"promote_in_backfill": True}
"""Params of runs for past days in which a model may be promoted. By default a backfill promotes nothing."""


@dataclass
class Session:
    """A running stack, with a client of its Airflow.

    Attributes:
        stack: the record of the running stack.
        client: the client of its Airflow.
        check: called while waiting; raises UnavailableError if a service has ended.
    """

    stack: Stack
    client: AirflowClient
    check: Callable[[], object]

    def unpause_dags(self, *dag_ids: str) -> None:
        """Wait until Airflow has parsed the DAGs, and unpause them. Idempotent."""
        unpause_when_parsed(self.client, dag_ids, self.stack.started_at, self.check)

    def build_backfill(
        self, dag_id: str, days: Sequence[date], max_active_runs: int, conf: dict[str, bool] | None = None
    ) -> Backfill:
        """Return the backfill of a DAG over these days. `Backfill.complete` starts its runs."""
        return Backfill(self.client, dag_id, days, max_active_runs, self.stack.started_at, self.check, conf or {})


@dataclass
class Job(ABC):
    """A job that runs on the stack of one home.

    Attributes:
        layout: the folders of the stack.
        request: the days to ingest, and the moments (as_of) of the trainings.
        phases_s: seconds that each phase took, in the order of the phases.
    """

    name: ClassVar[str]
    layout: Layout
    request: Request
    phases_s: dict[str, float] = field(default_factory=dict, init=False)

    @abstractmethod
    def perform(self, session: Session) -> None:
        """Do the work of the job on a running stack."""

    def run(self) -> None:
        """Start the stack, do the work, print the results, and write the report NAME.json. Idempotent.

        Raises:
            TaskFailedError: a task of a DAG failed.
            RequestError: the stack cannot start with this project or environment, a DAG cannot be imported, or its
                schedule has no run for a day. A retry cannot help.
            UnavailableError: a service failed, or another command is changing the stack. A retry can help.
        """
        self.layout.create_folders()
        with hold_lock(self.layout.lock_file("demo"), f"stack {self.name}"):
            outcome = "failed"
            try:
                self._perform_on_stack()
                outcome = "done"
            finally:
                self._finish(outcome)

    def ingest(self, session: Session) -> None:
        """Ingest and publish the weather and the flights of all days. Idempotent."""
        with self.measure_phase("weather"), display.show_progress("months of weather") as progress_bar:
            # The weather comes first, because the validation of flights reads it.
            session.build_backfill(WEATHER_DAG, self.request.months, MAX_WEATHER_RUNS).complete(progress_bar)
        with self.measure_phase("ingest"), display.show_progress("ingesting days") as progress_bar:
            session.build_backfill(INGEST_DAG, self.request.days, MAX_INGEST_RUNS).complete(progress_bar)

    def train(self, session: Session, moments: Sequence[date], conf: dict[str, bool]) -> None:
        """Train as of each moment, in order, since each model is compared with the champion before it. Idempotent."""
        with self.measure_phase("train"), display.show_progress("training runs") as progress_bar:
            for index, moment in enumerate(moments):
                progress_bar(index, len(moments), f"as of {moment}")
                backfill = session.build_backfill(self.request.train_dag, [moment], max_active_runs=1, conf=conf)
                backfill.complete(show_progress=lambda *_: None)
            progress_bar(len(moments), len(moments))

    @contextmanager
    def measure_phase(self, name: str) -> Iterator[None]:
        """Add the seconds that the block takes to the phase `name`."""
        start_s = time.monotonic()
        try:
            yield
        finally:
            self.phases_s[name] = round(self.phases_s.get(name, 0.0) + time.monotonic() - start_s, 2)

    def _perform_on_stack(self) -> None:
        with self.measure_phase("up"), display.show_start_progress() as report_progress:
            stack, _ = start_stack(self.layout, ANY_PORTS, report_progress)
        if self.request.keeps_running:
            self.layout.keep_running_file.touch()
        # The URLs are also printed before the work, so that the user can watch it in Airflow.
        display.open_console().print(display.build_url_table(self.layout, stack))

        def check() -> None:
            load_live_stack(self.layout, stack)

        try:
            client = AirflowClient(stack.airflow_url, USER, read_password(self.layout), check)
            session = Session(stack, client, check)
            with self.measure_phase("parse"):
                session.unpause_dags(WEATHER_DAG, INGEST_DAG, self.request.train_dag)
            self.perform(session)
        except UnavailableError:
            # The usual cause is a service that has ended. `load_live_stack` then raises a more precise error.
            load_live_stack(self.layout, stack)
            raise
        if restarts := display.format_restarts(Stack.load(self.layout) or stack):
            display.open_console().print(restarts)
        if self.layout.keep_running_file.exists():
            display.open_console().print(display.build_url_table(self.layout, stack))

    def _finish(self, outcome: str) -> None:
        """Stop the stack, unless the user wants it to stay up, and write the report."""
        stays_up = self.layout.keep_running_file.exists()
        if not stays_up:
            with self.measure_phase("down"), ignore_interrupts():
                stop_stack(self.layout)
        total_s = round(sum(self.phases_s.values()), 2)
        days = len(self.request.days)
        report = {"outcome": outcome, "days": days, "phases_s": self.phases_s, "total_s": total_s}
        write_atomically(self.layout.report_file(self.name), json.dumps(report, indent=2) + "\n", mode=0o644)
        phases = ", ".join(f"{name} {seconds:.0f}" for name, seconds in self.phases_s.items())
        state = f"The stack is still up; `{PROGRAM} down` stops it." if stays_up else "Nothing is left running."
        display.open_console().print(f"{outcome.capitalize()} in {total_s:.0f} s ({phases}). {state}")
