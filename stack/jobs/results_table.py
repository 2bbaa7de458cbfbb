"""Build the table of training runs that the demo prints at its end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from pipelines.escaping import escape
from stack.jobs.training_runs import TrainingRun

_METRICS = (
    {"auc": "AUC", "pr_auc": "PR-AUC", "brier": "Brier"},
    {"macro_auc": "AUC", "accuracy": "accuracy", "log_loss": "log loss"},
    {"rmse": "RMSE", "mae": "MAE", "r2": "R2"},
)
"""For each task of a model, the metrics in the table: name in MLflow, and heading of the column."""
_EMPTY = "-"


def build_results_table(training_runs: Sequence[TrainingRun]) -> Table:
    """Return a table with one row for each training run: its data, its metrics, and the verdict of its gate."""
    table = Table(title="Training runs", title_justify="left")
    metrics = _choose_metrics(training_runs)
    for name in ("as of", "train | holdout", "rows", "data", "job", *metrics.values(), "verdict", "version"):
        table.add_column(name, overflow="fold")
    for run in training_runs:
        table.add_row(
            run.as_of.isoformat(),
            "\n".join(map(escape, run.window.split(" | "))) or _EMPTY,
            _format_counts(run.rows_train, run.rows_holdout),
            escape(run.data_version[:12]) or _EMPTY,
            escape(run.training_job) or _EMPTY,
            *(_format_metric(run, name) for name in metrics),
            escape(run.verdict) or "no model",
            escape(" ".join([run.version, *run.aliases]).strip()) or _EMPTY,
        )
    return table


def _choose_metrics(training_runs: Sequence[TrainingRun]) -> dict[str, str]:
    """Return the metrics of the models' task, each with its name in the table."""
    names = {name for run in training_runs for name in run.metrics}
    return next((metrics for metrics in _METRICS if metrics.keys() <= names), _METRICS[0])


def _format_counts(*counts: str) -> str:
    return "\n".join(f"{int(count):,}" if count.isdigit() else escape(count) for count in counts if count) or _EMPTY


def _format_metric(run: TrainingRun, name: str) -> str:
    return f"{run.metrics[name]:.4f}" if name in run.metrics else _EMPTY
