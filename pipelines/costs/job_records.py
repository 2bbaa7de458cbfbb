"""Training, processing and transform jobs as SageMaker describes them, for the step `charge`. Light on purpose."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

GROUP = "/aws/sagemaker/TrainingJobs"
KINDS = ("Training", "Processing", "Transform")
"""What SageMaker's names say of the kinds of jobs: of CreateTrainingJob, TrainingJobName, and so on."""
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


def kind_of(job: Mapping[str, Any]) -> str:
    """Which of `KINDS` a described job is."""
    return next(kind for kind in KINDS if f"{kind}JobName" in job)


def ended_at(job: Mapping[str, Any]) -> dt.datetime:
    """When an ended job of any kind did so; when it was created, of one that never ran and tells no moment more."""
    told: dt.datetime = job.get(f"{kind_of(job)}EndTime") or job.get("LastModifiedTime") or job["CreationTime"]
    return told


def machine_of(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a processing or transform job runs on: InstanceType, InstanceCount."""
    if "TransformResources" in job:
        return dict(job["TransformResources"])
    return dict(job["ProcessingResources"]["ClusterConfig"])


def on_demand_record(job: Mapping[str, Any]) -> dict[str, Any]:
    """One ended processing or transform job as the step `charge` takes it: each second that began is billed, on demand.

    Args:
        job: the answer of DescribeProcessingJob or DescribeTransformJob.
    """
    kind, machine = kind_of(job), machine_of(job)
    began = job.get(f"{kind}StartTime")
    ended = ended_at(job)
    ran_s = math.ceil((ended - began).total_seconds()) if began else 0
    return {
        "name": job[f"{kind}JobName"],
        "arn": job[f"{kind}JobArn"],
        "status": job[f"{kind}JobStatus"],
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
