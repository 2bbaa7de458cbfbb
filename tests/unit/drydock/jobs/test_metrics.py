"""Test FinalMetricDataList."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from drydock.jobs.metrics import FinalMetrics, parse_series
from drydock.jobs.record import ParentTuning, Record
from drydock.jobs.training.job import TrainingJob

MOMENT = datetime(2013, 1, 1, tzinfo=UTC)
DEFINITIONS = [{"Name": "auc", "Regex": r"auc=(\S+)"}, {"Name": "none", "Regex": "loss"}]


def test_last_value_of_a_metric_is_final() -> None:
    metrics = FinalMetrics({})
    metrics.update("auc", ["0.5", "0.6", "high", "nan", "inf", None], MOMENT)
    metrics.update("none", [], MOMENT)
    metrics.update("auc", ["0.9"], MOMENT - timedelta(seconds=1))  # an earlier line of another host
    assert {name: value for name, (value, _) in metrics.last_values.items()} == {"auc": 0.6}


def test_metrics_have_the_order_of_their_definitions(make_job: Callable[..., TrainingJob]) -> None:
    definitions = [*DEFINITIONS, {"Name": "a", "Regex": "a"}]
    algorithm = {"TrainingImage": "i", "TrainingInputMode": "File", "MetricDefinitions": definitions}
    job, moment = make_job(AlgorithmSpecification=algorithm), datetime(2013, 1, 1, tzinfo=UTC)
    assert "FinalMetricDataList" not in job.describe()
    job.record.metrics = {"a": (1.0, moment), "auc": (0.6, moment), "of an earlier definition": (2.0, moment)}
    assert [(metric["MetricName"], metric["Value"]) for metric in job.describe()["FinalMetricDataList"]] == [
        ("auc", 0.6),
        ("a", 1.0),
    ]


def test_series_has_all_values_and_says_which_are_not_finite() -> None:
    assert parse_series(["0.5", "0.6", "high", "nan", "inf", None, "0.5"]) == [0.5, 0.6, None, None, 0.5]


def test_trial_stores_the_values_of_its_objective_and_other_jobs_store_none(
    make_job: Callable[..., TrainingJob],
) -> None:
    algorithm = {"TrainingImage": "i", "TrainingInputMode": "File", "MetricDefinitions": DEFINITIONS}
    trial, other = make_job(AlgorithmSpecification=algorithm), make_job(AlgorithmSpecification=algorithm)
    trial.record.tuning = ParentTuning("arn:tuning", "auc")
    for job in (trial, other):
        job.update_metrics(["auc=0.5", "auc=nan"], 1)
        job.update_metrics(["auc=0.5"], 2)
    restored = Record.load(trial.record.dump())
    assert restored.objective_values == [0.5, None, 0.5] and restored.tuning == ParentTuning("arn:tuning", "auc")
    assert other.record.objective_values == [] and "TuningJobArn" not in other.describe()
    assert trial.describe()["TuningJobArn"] == "arn:tuning"
