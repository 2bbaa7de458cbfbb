"""Define a resource that runs, and the methods that the sweep needs for each kind of resource."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pipelines.costs.prices import Component
from pipelines.idle.names import KindName
from pipelines.serving.undeployment import choose_period_s

MAX_GAP = dt.timedelta(hours=1)
"""If CPUUtilization has no value for this time or longer, the use is not known: the agent that sends the values may
have stopped."""


@dataclass(frozen=True)
class Resource:
    """A resource that runs, and may cost money.

    Attributes:
        name: name.
        arn: ARN.
        instances: maps each instance type to the number of instances. Empty if the resource costs nothing while nobody
            uses it; None if it costs something, but its instances are not known.
        changed_at: when it was started or changed, which counts as a use.
        tags: tags.
        description: SageMaker's description.
        reason_to_keep: why it is never stopped, whatever its tags; empty if it may be stopped.
    """

    name: str
    arn: str
    instances: Mapping[str, int] | None
    changed_at: dt.datetime
    tags: Mapping[str, str]
    description: Mapping[str, Any]
    reason_to_keep: str = ""


class Kind(Protocol):
    """Lists, checks and stops the resources of one kind. The caller translates the errors of AWS."""

    name: KindName
    component: Component
    """Component of SageMaker whose prices apply. Notebooks and apps have those of training jobs."""

    def list_names(self) -> list[str]:
        """Return the names of the resources that run, sorted."""

    def find(self, name: str) -> Resource | None:
        """Return a resource as it is now; None if it does not run any more."""

    def is_used(self, resource: Resource, begin: dt.datetime, now: dt.datetime) -> bool | None:
        """Return whether somebody used a resource between two moments; None if that cannot be known."""

    def stop(self, resource: Resource, why: str) -> bool:
        """Begin to stop a resource, or delete it. Return False if it did not run any more. Idempotent.

        Args:
            resource: the resource.
            why: the reason. For an endpoint, it is recorded in the model's history.
        """


def is_busy(
    cloudwatch: Any,
    namespace: str,
    dimension: tuple[str, str],
    times: tuple[dt.datetime, dt.datetime],
    cpu_percent: float,
) -> bool | None:
    """Return whether CPUUtilization was at least `cpu_percent` at any time; None if that is not known.

    It is not known if no value was as large, and CloudWatch has no value at all, or none for an hour or more.

    Args:
        cloudwatch: boto3 client of CloudWatch.
        namespace: namespace of the metric.
        dimension: name and value of the metric's dimension.
        times: beginning and end of the time to check.
        cpu_percent: limit, percent of one core.
    """
    begin, end = times[0].replace(second=0, microsecond=0), times[1] + dt.timedelta(minutes=1)
    period_s = choose_period_s(begin, end)
    response = cloudwatch.get_metric_statistics(
        Namespace=namespace,
        MetricName="CPUUtilization",
        Dimensions=[{"Name": dimension[0], "Value": dimension[1]}],
        StartTime=begin,
        EndTime=end,
        Period=period_s,
        Statistics=["Maximum"],
    )
    points = response["Datapoints"]
    if any(point["Maximum"] >= cpu_percent for point in points):
        return True
    has_gap = _find_longest_gap(times, [point["Timestamp"] for point in points], period_s) >= MAX_GAP
    return None if has_gap or not points else False


def _find_longest_gap(
    times: tuple[dt.datetime, dt.datetime], value_times: Iterable[dt.datetime], period_s: int
) -> dt.timedelta:
    """Return the longest time without a value between two moments. A value covers the period after its time."""
    period = dt.timedelta(seconds=period_s)
    starts = sorted(value_times)
    ends = [times[0], *(start + period for start in starts)]
    return max(start - end for start, end in zip([*starts, times[1]], ends, strict=True))
