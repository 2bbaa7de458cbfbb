"""Describe a resource that runs, and what the sweep needs to know of its kind."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pipelines.costs.prices import Component
from pipelines.idle.names import KindName
from pipelines.serving.undeployment import choose_period_s


@dataclass(frozen=True)
class Resource:
    """A resource that runs, and costs money.

    Attributes:
        name: its name.
        arn: its ARN.
        instances: instance type to number of instances; empty if it costs nothing while nobody uses it.
        changed_at: when it was started or changed. That counts as a use.
        tags: its tags.
        description: SageMaker's description.
    """

    name: str
    arn: str
    instances: Mapping[str, int]
    changed_at: dt.datetime
    tags: Mapping[str, str]
    description: Mapping[str, Any]


class Kind(Protocol):
    """A kind of resource that the sweep can list, check and stop. The caller translates the errors of AWS."""

    name: KindName
    component: Component

    def list_names(self) -> list[str]:
        """Return the names of the resources that run, sorted."""

    def find(self, name: str) -> Resource | None:
        """Return a resource as it is now; None if it does not run any more."""

    def is_used(self, resource: Resource, begin: dt.datetime, now: dt.datetime) -> bool | None:
        """Return whether somebody used a resource between two moments; None if that cannot be known."""

    def stop(self, resource: Resource, why: str) -> bool:
        """Begin to stop a resource. Return False if it did not run any more. Idempotent."""


def read_peak_cpu_percent(
    cloudwatch: Any, namespace: str, dimension: tuple[str, str], times: tuple[dt.datetime, dt.datetime]
) -> float | None:
    """Return the highest CPUUtilization between two moments, percent of one core; None if CloudWatch has no value.

    Args:
        cloudwatch: boto3 client of CloudWatch.
        namespace: namespace of the metric.
        dimension: name and value of its dimension.
        times: begin and end.
    """
    begin, end = times[0].replace(second=0, microsecond=0), times[1] + dt.timedelta(minutes=1)
    response = cloudwatch.get_metric_statistics(
        Namespace=namespace,
        MetricName="CPUUtilization",
        Dimensions=[{"Name": dimension[0], "Value": dimension[1]}],
        StartTime=begin,
        EndTime=end,
        Period=choose_period_s(begin, end),
        Statistics=["Maximum"],
    )
    return max((float(point["Maximum"]) for point in response["Datapoints"]), default=None)
