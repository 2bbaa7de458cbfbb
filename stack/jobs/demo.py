"""The demo: run the whole loop on real flights, on the embedded stack."""

from __future__ import annotations

from stack import display
from stack.jobs.cost_forecast import forecast_cost
from stack.jobs.job import PROMOTE_PARAMS, Job, Session
from stack.jobs.results_table import build_results_table
from stack.jobs.training_runs import read_training_runs

SERVING_HINT = """Score rows with the champion (docs/how-to/serving.md):
  make up                                            # prints the URL of MLflow
  export MLFLOW_TRACKING_URI=http://127.0.0.1:5000
  .venv/bin/python -m pipelines serve --model {model} --port 8081
  .venv/bin/python -m pipelines serve --model {model} --port 8081 --example | sh     # in another terminal: curl
Deploy it to an endpoint, which is rolled back if an alarm is raised: see "Deploy an endpoint" on the same page."""


class Demo(Job):
    """Ingest the days, train a model as of each moment, and print a table of the models."""

    name = "demo"

    def perform(self, session: Session) -> None:
        """Ingest, train, and print the results."""
        self.ingest(session)
        train_dag, runs = self.request.train_dag, len(self.request.as_of)
        display.open_console().print(forecast_cost(self.layout, session.stack, self.request.model, train_dag, runs))
        self.train(session, self.request.as_of, PROMOTE_PARAMS)
        with self.measure_phase("report"):
            training_runs = read_training_runs(session.stack.mlflow_url, self.request.model, self.request.as_of)
        display.open_console().print(build_results_table(training_runs))
        display.open_console().print(SERVING_HINT.format(model=self.request.model))
