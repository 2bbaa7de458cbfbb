"""The main job, end to end, on the embedded stack."""

from __future__ import annotations

from stack import display
from stack.jobs import training_runs
from stack.jobs.cost_forecast import forecast
from stack.jobs.job import PROMOTE, TRAIN, Job, Session
from stack.jobs.results_table import table


class Demo(Job):
    """Leaves a trained model for each moment, and a printed table."""

    name = "demo"

    def drive(self, session: Session) -> None:
        """Ingests, trains, and tells what came of it."""
        self.ingest(session)
        display.console().print(forecast(self.layout, session.stack, TRAIN, len(self.request.as_of)))
        self.train(session, self.request.as_of, PROMOTE)
        with self.phase("report"):
            rows = training_runs.rows(session.stack.mlflow_url, self.request.as_of)
        display.console().print(table(rows))
