"""FinalMetricDataList."""

from drydock.metrics import FinalMetrics


def test_the_last_value_of_a_metric_counts() -> None:
    metrics = FinalMetrics([{"Name": "auc", "Regex": r"auc=(\S+)"}, {"Name": "none", "Regex": "loss"}])
    for line in ("auc=0.5 auc=0.6", "loss", "nothing", "auc=high"):
        metrics.read(line)
    (found,) = metrics.describe()
    assert (found["MetricName"], found["Value"]) == ("auc", 0.6)
