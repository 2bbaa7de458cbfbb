"""Read from CloudWatch what instances of SageMaker used: CPU, memory, disk and GPU.

The calls are the same for AWS and for drydock. This module imports only the standard library, because Airflow's
operators import it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

METRICS = {
    "cpu": "CPUUtilization",
    "memory": "MemoryUtilization",
    "disk": "DiskUtilization",
    "gpu": "GPUUtilization",
    "gpu_memory": "GPUMemoryUtilization",
}
"""Maps each resource to the name of its metric. The values are percent. 100 percent of `cpu` is one core, of `gpu` and
`gpu_memory` one GPU."""

Point = Mapping[str, Any]
"""Statistics of one period: Timestamp, Maximum, Sum and SampleCount."""


def read_points(
    cloudwatch: Any,
    namespace: str,
    metric: str,
    dimensions: Mapping[str, str],
    times: tuple[dt.datetime, dt.datetime],
    period_s: int,
) -> list[Point]:
    """Read the statistics of a metric, one point for each period that has values.

    Args:
        cloudwatch: boto3 client of CloudWatch.
        namespace: namespace of the metric, such as /aws/sagemaker/TrainingJobs.
        metric: name of the metric, as in `METRICS`.
        dimensions: maps the name of each dimension to its value.
        times: begin and end, at most 1,440 periods apart, which is CloudWatch's limit for one request.
        period_s: length of a period, seconds.

    Raises:
        botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: CloudWatch does not answer or denies access.
    """
    response = cloudwatch.get_metric_statistics(
        Namespace=namespace,
        MetricName=metric,
        Dimensions=[{"Name": name, "Value": value} for name, value in dimensions.items()],
        StartTime=times[0],
        EndTime=times[1],
        Period=period_s,
        Statistics=["Maximum", "Sum", "SampleCount"],
    )
    points: list[Point] = response["Datapoints"]
    return points


def summarize_points(points: Sequence[Point]) -> dict[str, float] | None:
    """Return the highest value (`peak`) and the mean of all values (`mean`) of points, percent; None if none exist."""
    samples = sum(point["SampleCount"] for point in points)
    if not samples:
        return None
    peak = max(point["Maximum"] for point in points)
    return {"peak": peak, "mean": sum(point["Sum"] for point in points) / samples}
