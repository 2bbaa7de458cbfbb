"""Convert SageMaker's descriptions of jobs to records, the input of the step `charge`.

This module imports only the standard library, because Airflow's operators import it.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
"""Group of CloudWatch Logs with the logs of training jobs."""
KINDS = ("Training", "Processing", "Transform")
"""Kinds of jobs that are billed, as they appear in SageMaker's names: CreateTrainingJob, TrainingJobName."""
LONGEST_TRAINING_S = 28 * 86_400
"""SageMaker's limit of MaxRuntimeInSeconds of a training job, seconds: 28 days."""
TUNING_KIND = "HyperParameterTuning"
"""Kind of a tuning job. SageMaker bills the training jobs that a tuning job starts, not the tuning job itself."""
RESTORE_LINE = re.compile(r"checkpoint restored: (?:none|name=\S+ saved_at=(\S+))")
"""Line that a training script prints at each start, with the checkpoint from which it resumes, or `none`. The pattern's
group is the time at which the checkpoint was saved."""
CHOICE_VARIABLE = "LEEWAY_CHOICE"
"""Environment variable of a training job: the record of how its instance type was chosen, in JSON. Without it,
the job runs on the type that its task names."""
CHOICE_FIELDS = (
    *("instance_choice", "predicted_s", "predicted_usd", "uncorrected_s", "uncorrected_usd", "prediction_basis"),
)
"""Fields of the record of a choice that go into the ledger."""
INPUT_BYTES_VARIABLE = "LEEWAY_INPUT_BYTES"
"""Environment variable of a training job: how many bytes of input data it had before its start."""
INPUT_BYTES = re.compile(r"[1-9][0-9]{0,17}")
"""Pattern of the value of `INPUT_BYTES_VARIABLE`: at most 18 digits, because the ledger's column has 64 bits."""
DATA_WAIT = re.compile(r"data_wait_share=(0\.\d+|1\.0+);")
"""Line that a training script prints at its end: the share of its time that it waited for data. No MetricDefinitions
read the line, because SageMaker refuses them for some images."""


def to_training_record(
    job: Mapping[str, Any], restored_checkpoints: Sequence[Mapping[str, str]], data_wait_share: float | None = None
) -> dict[str, Any]:
    """Convert an ended training job to a record for the step `charge`.

    Args:
        job: response of DescribeTrainingJob.
        restored_checkpoints: the result of `list_restored_checkpoints` for the job.
        data_wait_share: the result of `find_data_wait_share` for the job.
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
        "created": _format_moment(job["CreationTime"]),
        "started": _format_moment(job.get("TrainingStartTime")),
        "ended": _format_moment(job.get("TrainingEndTime") or job.get("LastModifiedTime")),
        "training_s": job.get("TrainingTimeInSeconds", 0),
        "billable_s": job.get("BillableTimeInSeconds", 0),
        "transitions": [
            {
                "status": entry["Status"],
                "start": _format_moment(entry["StartTime"]),
                "end": _format_moment(entry.get("EndTime")),
            }
            for entry in job.get("SecondaryStatusTransitions", [])
        ],
        "restored": list(restored_checkpoints),
        "failure_reason": job.get("FailureReason", ""),
        "data_wait_share": data_wait_share,
        "input_bytes": read_input_bytes(job),
        **{name: read_choice(job).get(name) for name in CHOICE_FIELDS},
    }


def read_choice(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of how the instance type of a described training job was chosen.

    The record is empty if the task named the type, or if the variable `CHOICE_VARIABLE` is not a JSON object.
    """
    try:
        record = json.loads(job.get("Environment", {}).get(CHOICE_VARIABLE) or "{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def read_input_bytes(job: Mapping[str, Any]) -> int | None:
    """Return the bytes of the data of a described training job; None if they are not known."""
    text = str(job.get("Environment", {}).get(INPUT_BYTES_VARIABLE) or "")
    return int(text) if INPUT_BYTES.fullmatch(text) else None


def get_kind(job: Mapping[str, Any]) -> str:
    """Return which of `KINDS` a described job is, or `TUNING_KIND`."""
    return next(kind for kind in (*KINDS, TUNING_KIND) if f"{kind}JobName" in job)


def get_end_time(job: Mapping[str, Any]) -> dt.datetime:
    """Return when a job of any kind ended; its creation time if the description has no end time and no last change."""
    end_time: dt.datetime = job.get(f"{get_kind(job)}EndTime") or job.get("LastModifiedTime") or job["CreationTime"]
    return end_time


def get_instance_fields(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a processing or transform job's description that has InstanceType and InstanceCount."""
    if "TransformResources" in job:
        return dict(job["TransformResources"])
    return dict(job["ProcessingResources"]["ClusterConfig"])


def to_on_demand_record(job: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an ended processing or transform job to a record for the step `charge`.

    Such a job runs on demand and is billed by the second, rounded up. The record has field names of a training job:
    `training_s` is the time of the whole run.

    Args:
        job: response of DescribeProcessingJob or DescribeTransformJob.
    """
    kind, instances = get_kind(job), get_instance_fields(job)
    start_time = job.get(f"{kind}StartTime")
    end_time = get_end_time(job)
    run_time_s = math.ceil((end_time - start_time).total_seconds()) if start_time else 0
    return {
        "name": job[f"{kind}JobName"],
        "arn": job[f"{kind}JobArn"],
        "status": job[f"{kind}JobStatus"],
        "instance_type": instances["InstanceType"],
        "instance_count": instances["InstanceCount"],
        "spot": False,
        "created": _format_moment(job["CreationTime"]),
        "started": _format_moment(start_time),
        "ended": _format_moment(end_time),
        "training_s": run_time_s,
        "billable_s": run_time_s,
        "transitions": [{"status": "Training", "start": _format_moment(start_time), "end": _format_moment(end_time)}]
        if start_time
        else [],
        "failure_reason": job.get("FailureReason", ""),
    }


def list_restored_checkpoints(logs: Any, job_name: str) -> list[dict[str, str]]:
    """List the starts of a training script, each with the checkpoint that it restored, from the log of its first host.

    Args:
        logs: boto3 client of CloudWatch Logs.
        job_name: name of the training job.

    Returns:
        One entry for each start, with two times, ISO 8601 in UTC: `at`, when the script reported its start in the log,
        and `saved_at`, when the checkpoint was saved (empty if the script started without one).
    """
    events = _find_events(logs, job_name, "checkpoint restored")
    return [
        {"at": _format_ms(event["timestamp"]), "saved_at": match[1] or ""}
        for event in events
        if (match := RESTORE_LINE.search(event["message"]))
    ]


def find_data_wait_share(logs: Any, job_name: str) -> float | None:
    """Find the share of the training time that was spent waiting for data, in the log of the first host.

    Args:
        logs: boto3 client of CloudWatch Logs.
        job_name: name of the training job.

    Returns:
        The share that the script reported last, from 0 to 1; None if it reported none.
    """
    matches = [DATA_WAIT.search(event["message"]) for event in _find_events(logs, job_name, "data_wait_share")]
    shares = [float(match[1]) for match in matches if match]
    return shares[-1] if shares else None


def _find_events(logs: Any, job_name: str, text: str) -> list[Any]:
    """Return the events with a text in the log of the first host, oldest first; none if there is no log.

    CloudWatch Logs selects the events, so only these are downloaded.
    """
    request = {"logGroupName": LOG_GROUP, "logStreamNamePrefix": f"{job_name}/algo-1-"}  # algo-1: the first host
    try:
        streams = [stream["logStreamName"] for stream in logs.describe_log_streams(**request)["logStreams"]]
        events = [event for stream in streams for event in _iterate_events(logs, stream, text)]
    except logs.exceptions.ResourceNotFoundException:
        return []
    return sorted(events, key=lambda event: int(event["timestamp"]))


def _iterate_events(logs: Any, stream: str, text: str) -> Iterator[Any]:
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=LOG_GROUP, logStreamNames=[stream], filterPattern=f'"{text}"'
    )
    for page in pages:
        yield from page["events"]


def _format_ms(timestamp_ms: int) -> str:
    return dt.datetime.fromtimestamp(timestamp_ms / 1_000, dt.UTC).isoformat()


def _format_moment(moment: dt.datetime | None) -> str | None:
    return moment.astimezone(dt.UTC).isoformat() if moment else None
