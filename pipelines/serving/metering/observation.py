"""Read the instances, scaling activities and metrics of Leeway's endpoints from AWS, or from drydock."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import boto3

from pipelines.costs.endpoints.fleets import HOUR_S, CountChange, Fleet, Usage
from pipelines.costs.usage.resource_metrics import METRICS
from pipelines.errors import InvalidError, SpecError
from pipelines.serving.endpoint_resources import (
    ENDPOINT_TAG,
    MODEL_TAG,
    VARIANT_MEMBERS,
    describe_endpoint,
    read_tags,
)
from pipelines.serving.metering.history import find_endpoint_project
from pipelines.serving.metering.variant_use import NAMESPACE as INSTANCES_NAMESPACE
from pipelines.serving.metering.variant_use import Times, read_variant_use
from pipelines.system.aws_errors import translate_aws_errors
from pipelines.system.log import log

SERVICES = "SageMaker, Application Auto Scaling or CloudWatch"
NAMESPACE = "AWS/SageMaker"
SCALABLE_DIMENSION = "sagemaker:variant:DesiredInstanceCount"
DESIRED_COUNT = re.compile(r"desired instance count to (\d+)")
"""Text of a scaling activity; the group is the number of instances."""
MINUTE_S = 60
MAX_DATAPOINTS = 1_440
"""CloudWatch's limit for one request."""


@dataclass(frozen=True)
class LiveFleet:
    """A fleet of an endpoint that exists."""

    fleet: Fleet
    begin: dt.datetime
    """Creation of the endpoint or of its configuration, whichever is later. The fleet did not begin earlier."""
    initial_count: int
    """Number of instances in the configuration."""
    count: int | None
    """Number of instances now; None while the endpoint is changing."""
    changed_at: dt.datetime
    """Last change of the endpoint."""
    is_pending: bool
    """Whether the fleet belongs to a deployment in progress."""


class Observer:
    """Reads the endpoints of the region AWS_DEFAULT_REGION, at AWS_ENDPOINT_URL if that is set.

    Raises:
        SpecError: no AWS region is configured. A retry cannot help.
    """

    def __init__(self) -> None:
        if not boto3.Session().region_name:
            raise SpecError("no AWS region is configured.", "Set AWS_DEFAULT_REGION.")
        self._sagemaker, self._cloudwatch = boto3.client("sagemaker"), boto3.client("cloudwatch")
        self._autoscaling = boto3.client("application-autoscaling")
        self.region = str(self._sagemaker.meta.region_name)

    def list_live_fleets(self) -> list[LiveFleet]:
        """List the fleets, one for each variant, of the endpoints that Leeway created or that have the tag of a model.

        The fleets of deployments in progress are in the list, too.

        Raises:
            InvalidError: AWS denies the request. A retry cannot help.
            ServiceError: SageMaker does not answer. A retry can help.
        """
        with translate_aws_errors(SERVICES):
            pages = self._sagemaker.get_paginator("list_endpoints").paginate()
            names = sorted(item["EndpointName"] for page in pages for item in page["Endpoints"])
            return [fleet for name in names for fleet in self._list_fleets(name)]

    def read_changes(self, endpoint: str, variant: str) -> list[CountChange]:
        """Read the changes of the number of instances by Application Auto Scaling, which keeps them for six weeks.

        Raises:
            InvalidError: AWS denies the request. A retry cannot help.
            ServiceError: AWS does not answer. A retry can help.
        """
        with translate_aws_errors(SERVICES):
            pages = self._autoscaling.get_paginator("describe_scaling_activities").paginate(
                ServiceNamespace="sagemaker", ResourceId=_format_resource(endpoint, variant)
            )
            activities = [activity for page in pages for activity in page["ScalingActivities"]]
        return [
            CountChange(activity.get("EndTime", activity["StartTime"]), int(match[1]))
            for activity in activities
            if activity["StatusCode"] == "Successful" and (match := DESIRED_COUNT.search(activity["Description"]))
        ]

    def is_scaled(self, fleet: Fleet) -> bool | None:
        """Return whether Application Auto Scaling changes the number of instances; None if AWS denies the request.

        Raises:
            ServiceError: AWS does not answer. A retry can help.
        """
        try:
            with translate_aws_errors(SERVICES):
                response = self._autoscaling.describe_scalable_targets(
                    ServiceNamespace="sagemaker",
                    ResourceIds=[_format_resource(fleet.endpoint, fleet.variant)],
                    ScalableDimension=SCALABLE_DIMENSION,
                )
        except InvalidError as error:  # roles for earlier versions lack this permission; costs do not depend on it
            log.warning("endpoint %s: it is not known whether it is scaled automatically: %s", fleet.endpoint, error)
            return None
        return bool(response["ScalableTargets"])

    def find_last_report(self, fleet: Fleet, begin: dt.datetime, end: dt.datetime) -> dt.datetime | None:
        """Return the end of the last minute for which CloudWatch has the fleet's CPU utilization; None if it has none.

        If the value is more than 15 days old, return the end of its hour.

        Raises:
            InvalidError: AWS denies the request. A retry cannot help.
            ServiceError: CloudWatch does not answer. A retry can help.
        """
        metric = INSTANCES_NAMESPACE, METRICS["cpu"]
        first_hour = max(begin, end - dt.timedelta(seconds=MAX_DATAPOINTS * HOUR_S))
        last_hour = self._find_last_time(fleet, metric, first_hour, end)
        if last_hour is None:
            return None
        hour_end = last_hour + dt.timedelta(seconds=HOUR_S)
        last_minute = self._find_last_time(fleet, metric, last_hour, hour_end, MINUTE_S)
        # CloudWatch keeps values of single minutes for 15 days only.
        return min(end, last_minute + dt.timedelta(seconds=MINUTE_S) if last_minute else hour_end)

    def read_requests(self, fleet: Fleet, begin: dt.datetime, end: dt.datetime) -> Usage:
        """Read how many requests a fleet answered, and the seconds that its model worked on them.

        Args:
            fleet: instances or a serverless variant.
            begin: a whole hour.
            end: a whole hour, at most 60 days later.

        Raises:
            InvalidError: AWS denies the request. A retry cannot help.
            ServiceError: CloudWatch does not answer. A retry can help.
        """
        metric = NAMESPACE, "ModelLatency"
        points = self._read_points(fleet, metric, begin, end, HOUR_S, ["Sum", "SampleCount"])
        busy_s = sum(point["Sum"] for point in points) / 1e6
        return Usage(requests=int(sum(point["SampleCount"] for point in points)), busy_s=busy_s)

    def read_resource_use(
        self, fleet: Fleet, times: Times, other_times: Sequence[Times], now: dt.datetime
    ) -> dict[str, float]:
        """Read what the instances of a fleet used; `read_variant_use` describes the arguments and the result.

        Raises:
            InvalidError: AWS denies the request. A retry cannot help.
            ServiceError: CloudWatch does not answer. A retry can help.
        """
        with translate_aws_errors(SERVICES):
            return read_variant_use(self._cloudwatch, fleet, times, other_times, now)

    def _list_fleets(self, name: str) -> Iterator[LiveFleet]:
        endpoint = describe_endpoint(self._sagemaker, name)
        tags = read_tags(self._sagemaker, endpoint["EndpointArn"]) if endpoint else {}
        is_metered = ENDPOINT_TAG in tags or MODEL_TAG in tags
        if endpoint is None or not is_metered or endpoint["EndpointStatus"] == "Failed":
            return
        yield from self._list_config_fleets(endpoint, tags, endpoint["EndpointConfigName"], is_pending=False)
        pending_config = endpoint.get("PendingDeploymentSummary", {}).get("EndpointConfigName", "")
        if pending_config not in ("", endpoint["EndpointConfigName"]):
            yield from self._list_config_fleets(endpoint, tags, pending_config, is_pending=True)

    def _list_config_fleets(
        self, endpoint: Mapping[str, Any], tags: Mapping[str, str], config_name: str, *, is_pending: bool
    ) -> Iterator[LiveFleet]:
        config = self._sagemaker.describe_endpoint_config(EndpointConfigName=config_name)
        counts = {} if is_pending else _read_counts(endpoint)
        model = tags.get(MODEL_TAG, "")
        for variant in (item for member in VARIANT_MEMBERS for item in config.get(member, [])):
            if variant.get("ServerlessConfig", {}).get("ProvisionedConcurrency"):
                name = endpoint["EndpointName"]
                log.warning("endpoint %s: the cost of its provisioned concurrency is not recorded", name)
            fleet = Fleet(
                region=self.region,
                endpoint=endpoint["EndpointName"],
                config=config_name,
                variant=variant["VariantName"],
                instance_type=variant.get("InstanceType", ""),
                memory_mb=variant.get("ServerlessConfig", {}).get("MemorySizeInMB", 0),
                model=model,
                project=find_endpoint_project(tags.get("leeway:project", ""), model),
            )
            begin = max(endpoint["CreationTime"], config["CreationTime"])
            initial_count, count = variant.get("InitialInstanceCount", 0), counts.get(fleet.variant)
            yield LiveFleet(fleet, begin, initial_count, count, endpoint["LastModifiedTime"], is_pending)

    def _find_last_time(
        self, fleet: Fleet, metric: tuple[str, str], begin: dt.datetime, end: dt.datetime, period_s: int = HOUR_S
    ) -> dt.datetime | None:
        """Return the beginning of the last period with a value of a metric (namespace, name); None if there is none."""
        points = self._read_points(fleet, metric, begin, end, period_s, ["SampleCount"])
        return max((point["Timestamp"] for point in points), default=None)

    def _read_points(
        self,
        fleet: Fleet,
        metric: tuple[str, str],
        begin: dt.datetime,
        end: dt.datetime,
        period_s: int,
        statistics: Sequence[str],
    ) -> list[dict[str, Any]]:
        with translate_aws_errors(SERVICES):
            response = self._cloudwatch.get_metric_statistics(
                Namespace=metric[0],
                MetricName=metric[1],
                Dimensions=[
                    {"Name": "EndpointName", "Value": fleet.endpoint},
                    {"Name": "VariantName", "Value": fleet.variant},
                ],
                StartTime=begin,
                EndTime=end,
                Period=period_s,
                Statistics=statistics,
            )
        return list(response["Datapoints"])


def _read_counts(endpoint: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of instances of each variant; empty while the endpoint is changing."""
    if endpoint["EndpointStatus"] != "InService":
        return {}
    variants = [item for member in VARIANT_MEMBERS for item in endpoint.get(member, [])]
    # While an instance is being replaced, it is billed, but CurrentInstanceCount does not include it.
    return {item["VariantName"]: item["DesiredInstanceCount"] for item in variants if "DesiredInstanceCount" in item}


def _format_resource(endpoint: str, variant: str) -> str:
    """Return the id by which Application Auto Scaling names a variant."""
    return f"endpoint/{endpoint}/variant/{variant}"
