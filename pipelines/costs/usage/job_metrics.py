"""Read from CloudWatch what a SageMaker job used of its instances: CPU, memory, disk and GPU.

The calls are the same for AWS and for drydock. This module imports only the standard library, because Airflow's
operators import it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.costs.job_records import get_end_time, get_instance_fields, get_kind
from pipelines.costs.usage.resource_metrics import METRICS, read_points, summarize_points

PERIOD_S = 3_600
"""Seconds of a period. The maximum and the sum of a job do not depend on it. Long periods mean few values to read."""
MAX_PERIODS = 1_440
"""CloudWatch's limit of the periods in one request: 60 days, which no job takes."""
MAX_PAGES = 20
"""Largest number of pages of metrics in which the instances of a transform job are looked for."""
RECENT = dt.timedelta(hours=2)
"""If a transform job ended less than this time ago, only the metrics with values in the last three hours are listed:
these are fewer."""


def read_usage(cloudwatch: Any, job: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Read the peak and the mean of each resource that a job used, over all of its instances.

    Args:
        cloudwatch: boto3 client of CloudWatch.
        job: response of DescribeTrainingJob, DescribeProcessingJob or DescribeTransformJob. The job may still run.

    Returns:
        Maps each resource to `peak` and `mean`, percent. A resource without values in CloudWatch is left out.

    Raises:
        botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: CloudWatch does not answer or denies access.
    """
    kind = get_kind(job)
    begin = job.get(f"{kind}StartTime")
    if begin is None:  # the job got no instance
        return {}
    namespace = f"/aws/sagemaker/{kind}Jobs"
    end = get_end_time(job) if _has_ended(job) else dt.datetime.now(dt.UTC)
    times, hosts = _choose_times(begin, end), _list_hosts(cloudwatch, namespace, job, end)
    usage = {}
    for name, metric in METRICS.items():
        points = [
            point
            for host in hosts
            for point in read_points(cloudwatch, namespace, metric, {"Host": host}, times, PERIOD_S)
        ]
        if use := summarize_points(points):
            usage[name] = use
    return usage


def _has_ended(job: Mapping[str, Any]) -> bool:
    return job[f"{get_kind(job)}JobStatus"] not in ("InProgress", "Stopping")


def _choose_times(begin: dt.datetime, end: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
    """Return the beginning and the end of a time of whole hours that includes the job.

    The time is longer than the job, but no metrics of other jobs are read, because each job has its own hosts.
    """
    period = dt.timedelta(seconds=PERIOD_S)
    first = begin.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0)
    last = end.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0) + 2 * period
    return max(first, last - MAX_PERIODS * period), last


def _list_hosts(cloudwatch: Any, namespace: str, job: Mapping[str, Any], end: dt.datetime) -> Sequence[str]:
    """Return the values of the dimension Host of a job's metrics."""
    kind = get_kind(job)
    name = job[f"{kind}JobName"]
    if kind != "Transform":
        count = int((job["ResourceConfig"] if kind == "Training" else get_instance_fields(job)).get("InstanceCount", 1))
        return [f"{name}/algo-{number}" for number in range(1, count + 1)]
    # The hosts of a transform job have the ids of its instances, which Describe does not return.
    return sorted({host for host in _iterate_hosts(cloudwatch, namespace, end) if host.startswith(f"{name}/")})


def _iterate_hosts(cloudwatch: Any, namespace: str, end: dt.datetime) -> Iterator[str]:
    request = {"Namespace": namespace, "MetricName": METRICS["cpu"], "Dimensions": [{"Name": "Host"}]}
    if end + RECENT > dt.datetime.now(dt.UTC):
        request["RecentlyActive"] = "PT3H"
    for number, page in enumerate(cloudwatch.get_paginator("list_metrics").paginate(**request), 1):
        for metric in page["Metrics"]:
            yield from (item["Value"] for item in metric["Dimensions"] if item["Name"] == "Host")
        if number >= MAX_PAGES:
            return
