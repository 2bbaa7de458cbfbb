"""Find and stop SageMaker processing jobs that run without using their CPUs."""

from __future__ import annotations

import datetime as dt
from typing import Any

from botocore.exceptions import ClientError

from pipelines.costs.prices import Component
from pipelines.idle.kinds import Resource, is_busy
from pipelines.idle.names import KindName
from pipelines.serving.endpoint_resources import read_tags

NAMESPACE, DIMENSION = "/aws/sagemaker/ProcessingJobs", "Host"
"""Namespace and dimension of the metrics of processing jobs in CloudWatch."""


class ProcessingKind:
    """Lists, checks and stops processing jobs. A job is in use if the CPU of any of its instances reached a limit.

    Args:
        sagemaker: boto3 client of SageMaker.
        cloudwatch: boto3 client of CloudWatch.
        cpu_percent: limit of the CPU utilization, percent of one core.
    """

    name: KindName = "processing"
    component: Component = "Training"

    def __init__(self, sagemaker: Any, cloudwatch: Any, cpu_percent: float) -> None:
        self.sagemaker, self.cloudwatch, self.cpu_percent = sagemaker, cloudwatch, cpu_percent

    def list_names(self) -> list[str]:
        """Return the names of the processing jobs that are InProgress, sorted."""
        pages = self.sagemaker.get_paginator("list_processing_jobs").paginate(StatusEquals="InProgress")
        return sorted(job["ProcessingJobName"] for page in pages for job in page["ProcessingJobSummaries"])

    def find(self, name: str) -> Resource | None:
        """Return a job; None if it does not exist, has ended, or has not started its instances."""
        try:
            job = self.sagemaker.describe_processing_job(ProcessingJobName=name)
        except ClientError as error:
            if "Could not find" in str(error):
                return None
            raise
        begin, arn = job.get("ProcessingStartTime"), job["ProcessingJobArn"]
        if job["ProcessingJobStatus"] != "InProgress" or begin is None:
            return None
        cluster = job["ProcessingResources"]["ClusterConfig"]
        instances = {cluster["InstanceType"]: int(cluster["InstanceCount"])}
        return Resource(name, arn, instances, begin, read_tags(self.sagemaker, arn), job)

    def is_used(self, resource: Resource, begin: dt.datetime, now: dt.datetime) -> bool | None:
        """Return whether the CPU of any instance reached the limit.

        None if no known value reached it, and at least one instance lacks the values of an hour or more, or all values.
        """
        count = int(resource.description["ProcessingResources"]["ClusterConfig"]["InstanceCount"])
        hosts = [f"{resource.name}/algo-{host_number}" for host_number in range(1, count + 1)]
        busy_flags = [
            is_busy(self.cloudwatch, NAMESPACE, (DIMENSION, host), (begin, now), self.cpu_percent) for host in hosts
        ]
        return True if True in busy_flags else None if None in busy_flags else False

    def stop(self, resource: Resource, why: str) -> bool:
        """Begin to stop a processing job; return False if it was not running. Results not yet uploaded are lost."""
        try:
            self.sagemaker.stop_processing_job(ProcessingJobName=resource.name)
        except ClientError as error:
            if "is in status" not in str(error) and "Could not find" not in str(error):
                raise
            return False
        return True
