"""Test FinalMetricDataList."""

from collections.abc import Callable
from datetime import UTC, datetime

from drydock.jobs.metrics import FinalMetrics
from drydock.jobs.training.job import TrainingJob

MOMENT = datetime(2013, 1, 1, tzinfo=UTC)
DEFINITIONS = [{"Name": "auc", "Regex": r"auc=(\S+)"}, {"Name": "none", "Regex": "loss"}]


def test_last_value_of_a_metric_is_final() -> None:
    metrics = FinalMetrics(DEFINITIONS, {})
    for line in ("auc=0.5 auc=0.6", "loss", "nothing", "auc=high", "auc=nan", "auc=inf"):
        metrics.update_from_line(line, MOMENT)
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
