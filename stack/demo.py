"""The main job, end to end, on the embedded stack."""

from __future__ import annotations

from stack import display, mlflow_api
from stack.forecast import forecast
from stack.job import PROMOTE, TRAIN, Job, Session
from stack.results import table


class Demo(Job):
    """Leaves a trained model for each moment, and a printed table."""

    name = "demo"

    def drive(self, session: Session) -> None:
        """Ingests, trains, and tells what came of it."""
        self.ingest(session)
        display.console().print(forecast(self.layout, session.stack, TRAIN, len(self.request.as_of)))
        self.train(session, self.request.as_of, PROMOTE)
        with self.phase("report"):
            rows = mlflow_api.rows(session.stack.mlflow_url, self.request.as_of)
        display.console().print(table(rows))
