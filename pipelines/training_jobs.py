"""Training and processing jobs as SageMaker describes them, as the step `charge` takes them. Light on purpose."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

GROUP = "/aws/sagemaker/TrainingJobs"
RESTORED = re.compile(r"checkpoint restored: (?:none|name=\S+ saved_at=(\S+))")
"""What a script prints when it starts: the checkpoint that it goes on from."""


def record(job: Mapping[str, Any], restored: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """One ended job as the step `charge` takes it.

    Args:
        job: the answer of DescribeTrainingJob.
        restored: as the function `restored` tells it.
    """
    resources = job["ResourceConfig"]
    return {
        "name": job["TrainingJobName"],
        "arn": job["TrainingJobArn"],
        "status": job["TrainingJobStatus"],
        "secondary_status": job.get("SecondaryStatus", ""),
        "instance_type": resources.get("InstanceType", ""),
        "instance_count": resources.get("InstanceCount", 1),
        "spot": job.get("EnableManagedSpotTraining", False),
        "created": _moment(job["CreationTime"]),
        "started": _moment(job.get("TrainingStartTime")),
        "ended": _moment(job.get("TrainingEndTime") or job.get("LastModifiedTime")),
        "training_s": job.get("TrainingTimeInSeconds", 0),
        "billable_s": job.get("BillableTimeInSeconds", 0),
        "transitions": [
            {"status": one["Status"], "start": _moment(one["StartTime"]), "end": _moment(one.get("EndTime"))}
            for one in job.get("SecondaryStatusTransitions", [])
        ],
        "restored": list(restored),
        "failure_reason": job.get("FailureReason", ""),
    }


def processing_record(job: Mapping[str, Any]) -> dict[str, Any]:
    """One ended processing job as the step `charge` takes it: all of its time is billed, on demand.

    Args:
        job: the answer of DescribeProcessingJob.
    """
    machine, began = job["ProcessingResources"]["ClusterConfig"], job.get("ProcessingStartTime")
    ended = job.get("ProcessingEndTime") or job["LastModifiedTime"]
    ran_s = round((ended - began).total_seconds()) if began else 0
    return {
        "name": job["ProcessingJobName"],
        "arn": job["ProcessingJobArn"],
        "status": job["ProcessingJobStatus"],
        "instance_type": machine["InstanceType"],
        "instance_count": machine["InstanceCount"],
        "spot": False,
        "created": _moment(job["CreationTime"]),
        "started": _moment(began),
        "ended": _moment(ended),
        "training_s": ran_s,
        "billable_s": ran_s,
        "transitions": [{"status": "Training", "start": _moment(began), "end": _moment(ended)}] if began else [],
        "failure_reason": job.get("FailureReason", ""),
    }


def restored(logs: Any, job_name: str) -> list[dict[str, str]]:
    """When the script restored a checkpoint, and when that one had been written, as its first host says.

    Args:
        logs: a boto3 client of CloudWatch Logs.
        job_name: the job.

    Returns:
        `at` and `saved_at`, ISO 8601 in UTC, a start of the script; `saved_at` is empty where there was none.
    """
    asked = {"logGroupName": GROUP, "logStreamNamePrefix": f"{job_name}/algo-1-"}
    try:
        streams = [one["logStreamName"] for one in logs.describe_log_streams(**asked)["logStreams"]]
        events = [event for stream in streams for event in _found(logs, stream)]
    except logs.exceptions.ResourceNotFoundException:
        return []
    return [
        {"at": _of_ms(event["timestamp"]), "saved_at": told[1] or ""}
        for event in events
        if (told := RESTORED.search(event["message"]))
    ]


def _found(logs: Any, stream: str) -> Iterator[Any]:
    """The events that speak of restored checkpoints; the service looks, not this process."""
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=GROUP, logStreamNames=[stream], filterPattern='"checkpoint restored"'
    )
    for page in pages:
        yield from page["events"]


def _of_ms(timestamp_ms: int) -> str:
    return dt.datetime.fromtimestamp(timestamp_ms / 1_000, dt.UTC).isoformat()


def _moment(moment: dt.datetime | None) -> str | None:
    return moment.astimezone(dt.UTC).isoformat() if moment else None
