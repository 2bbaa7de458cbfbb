"""Build a CloudWatch with the data of a metric and an alarm on it."""

from datetime import datetime, timedelta
from typing import Any

from moto.cloudwatch.models import CloudWatchBackend

NOW = datetime(2026, 11, 25, 10, 30, 20)
ABOVE = "GreaterThanOrEqualToThreshold"


def build_alarm(points: dict[int, float], **fields: Any) -> tuple[CloudWatchBackend, Any]:
    """Return a CloudWatch with data so many minutes ago (0 is the current minute), and its alarm."""
    backend = CloudWatchBackend("us-east-1", "123456789012")
    for minutes, value in points.items():
        moment = NOW.replace(second=5) - timedelta(minutes=minutes)
        data = [{"MetricName": "errors", "Value": value, "Timestamp": moment}]
        backend.put_metric_data("mine", data)
    backend.put_metric_data("mine", [{"MetricName": "others", "Value": 99.0, "Timestamp": NOW}])
    values: dict[str, Any] = dict.fromkeys(
        (
            "metric_data_queries", "datapoints_to_alarm", "extended_statistic", "ok_actions", "treat_missing_data",
            "insufficient_data_actions", "unit", "evaluate_low_sample_count_percentile", "threshold_metric_id", "rule",
        )
    )  # fmt: skip
    values |= {"name": "a", "namespace": "mine", "metric_name": "errors", "comparison_operator": ABOVE, "period": 60}
    values |= {"evaluation_periods": 1, "threshold": 5.0, "statistic": "Sum", "description": "", "dimensions": []}
    values |= {"alarm_actions": [], "actions_enabled": True, "tags": []}
    return backend, backend.put_metric_alarm(**{**values, **fields})
