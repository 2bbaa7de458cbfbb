"""Read from CloudWatch what the instances of an endpoint's variant used in a period."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from pipelines.costs.endpoints.fleets import HOUR_S, Fleet
from pipelines.costs.endpoints.ledger import OBSERVED_COLUMN
from pipelines.costs.usage.resource_metrics import METRICS, Point, read_points, summarize_points

NAMESPACE = "/aws/sagemaker/Endpoints"
"""Namespace of the metrics of instances. Metrics of requests have the namespace AWS/SageMaker."""
PERIOD_S, OLD_PERIOD_S = 300, HOUR_S
"""Seconds that each value covers: for a recent time, and for a time that begins more than `MAX_AGE` ago."""
MAX_AGE = dt.timedelta(days=62)
"""Age from which values of whole hours are read: CloudWatch keeps values of five minutes for 63 days only."""

Times = tuple[dt.datetime, dt.datetime]
"""Begin and end."""


def read_variant_use(
    cloudwatch: Any, fleet: Fleet, times: Times, other_times: Sequence[Times], now: dt.datetime
) -> dict[str, float]:
    """Read the peak and the mean of each resource, over all instances of a variant.

    CloudWatch's metrics do not name the configuration. So the periods in which another fleet of the variant ran, too,
    are left out, because its instances may have another type.

    Args:
        cloudwatch: boto3 client of CloudWatch.
        fleet: the fleet; it has instances.
        times: begin and end, within one day. Both are rounded down to whole periods of five minutes (of hours, if they
            are old), so that each value is used for one row only.
        other_times: times in which other fleets of the variant ran.
        now: the current moment.

    Returns:
        Maps columns of the ledger (cpu_peak, cpu_mean, memory_peak ...) to percent. A resource without values is left
        out. `observed_h` is the number of hours for which the utilization of the CPU is known.

    Raises:
        botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: CloudWatch does not answer, or refuses the
            request.
    """
    period_s = PERIOD_S if times[0] > now - MAX_AGE else OLD_PERIOD_S
    begin, end = (_floor(moment, period_s) for moment in times)
    values = {OBSERVED_COLUMN: 0.0}
    if begin >= end:
        return values
    dimensions = {"EndpointName": fleet.endpoint, "VariantName": fleet.variant}
    for resource, metric in METRICS.items():
        points = read_points(cloudwatch, NAMESPACE, metric, dimensions, (begin, end), period_s)
        own_points = [point for point in points if not _is_shared(point, period_s, other_times)]
        if use := summarize_points(own_points):
            values |= {f"{resource}_{name}": value for name, value in use.items()}
        if resource == "cpu":
            values[OBSERVED_COLUMN] = len(own_points) * period_s / HOUR_S
    return values


def _is_shared(point: Point, period_s: int, other_times: Sequence[Times]) -> bool:
    """Return whether another fleet ran in the period of a point."""
    begin: dt.datetime = point["Timestamp"]
    end = begin + dt.timedelta(seconds=period_s)
    return any(other_begin < end and other_end > begin for other_begin, other_end in other_times)


def _floor(moment: dt.datetime, period_s: int) -> dt.datetime:
    seconds = int(moment.timestamp())
    return dt.datetime.fromtimestamp(seconds - seconds % period_s, dt.UTC)
