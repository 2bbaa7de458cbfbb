"""The demo: run the whole loop on real flights, on the embedded stack."""

from __future__ import annotations

from stack import display
from stack.jobs.cost_forecast import forecast_cost
from stack.jobs.job import PROMOTE_PARAMS, Job, Session
from stack.jobs.results_table import build_results_table
from stack.jobs.serving_hint import build_serving_hint
from stack.jobs.training_runs import read_training_runs


class Demo(Job):
    """Ingest the days, train a model as of each moment, and print a table of the models, and how to serve them."""

    name = "demo"

    def perform(self, session: Session) -> None:
        """Ingest, train, and print the results."""
        self.ingest(session)
        train_dag, runs = self.request.train_dag, len(self.request.as_of)
        display.open_console().print(forecast_cost(self.layout, session.stack, self.request.model, train_dag, runs))
        self.train(session, self.request.as_of, PROMOTE_PARAMS)
        model = self.request.model
        with self.measure_phase("report"):
            training_runs = read_training_runs(session.stack.mlflow_url, model, self.request.as_of)
            has_endpoint, has_lookups = (
                session.client.get_dag(f"{model}_{name}") is not None for name in ("deploy", "materialize")
            )
            hint = build_serving_hint(
                self.layout, session.stack, model, has_endpoint=has_endpoint, has_lookups=has_lookups
            )
        display.open_console().print(build_results_table(training_runs))
        display.open_console().print(hint, soft_wrap=True)
