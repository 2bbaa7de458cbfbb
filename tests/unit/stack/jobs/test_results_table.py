"""Test the table of training runs."""

import io
from datetime import date

from rich.console import Console

from stack.jobs.results_table import build_results_table
from stack.jobs.training_runs import TrainingRun


def test_shows_training_runs_with_and_without_a_model():
    run = TrainingRun(
        as_of=date(2013, 3, 1),
        version="2",
        aliases=["champion"],
        window="2013-01-02..2013-02-14 | 2013-02-16..2013-02-27",
        rows_train="39000",
        rows_holdout="12000",
        data_version="0123456789abcdef",
        training_job="leeway-1",
        verdict="passed",
        metrics={"auc": 0.69123},
    )
    output = io.StringIO()
    Console(width=150, file=output).print(build_results_table([run, TrainingRun(as_of=date(2013, 4, 1))]))
    for text in ("0.6912", "2 champion", "39,000", "leeway-1", "passed", "no model"):
        assert text in output.getvalue()


def test_shows_the_metrics_of_the_task():
    run = TrainingRun(
        as_of=date(2013, 3, 1), version="1", metrics={"rmse": 41.25, "mae": 25.5, "r2": 0.08, "rows": 9.0}
    )
    output = io.StringIO()
    Console(width=150, file=output).print(build_results_table([run]))
    for text in ("RMSE", "41.2500", "MAE", "25.5000", "0.0800"):
        assert text in output.getvalue()
    assert "PR-AUC" not in output.getvalue()
