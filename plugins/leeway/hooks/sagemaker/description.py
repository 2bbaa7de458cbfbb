"""Read SageMaker's description of a job of any kind: its name, state, times and cost."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pipelines.costs.job_records import TUNING_KIND, get_end_time, get_kind

LIVE_STATES = ("InProgress", "Stopping")
"""States of a job that has not ended."""
PAID_STATES = ("Downloading", "DownloadingTrainingImage", "Training", "Uploading", "Stopping")
"""Secondary states in which a training job has instances and costs money. In all other states it
waits for instances, or has ended."""
TRIALS = "Trials"
"""Key of a tuning job's description to which Leeway adds the descriptions of its trials' training jobs."""


def get_kind_label(job: Mapping[str, Any]) -> str:
    """Return the kind of a described job, for log lines: training, processing, transform or tuning."""
    kind = get_kind(job)
    return "tuning" if kind == TUNING_KIND else kind.lower()


def get_job_name(job: Mapping[str, Any]) -> str:
    """Return the job's name."""
    return str(job[f"{get_kind(job)}JobName"])


def get_job_status(job: Mapping[str, Any]) -> str:
    """Return the job's state."""
    return str(job[f"{get_kind(job)}JobStatus"])


def get_job_arn(job: Mapping[str, Any]) -> str:
    """Return the job's ARN."""
    return str(job[f"{get_kind(job)}JobArn"])


def get_start_time(job: Mapping[str, Any]) -> dt.datetime | None:
    """Return when the job got its instances; None if it never did."""
    start: dt.datetime | None = job.get(f"{get_kind(job)}StartTime")
    return start


def is_live(job: Mapping[str, Any]) -> bool:
    """Return whether the job has not ended."""
    return get_job_status(job) in LIVE_STATES


def compute_max_duration_s(job: Mapping[str, Any], max_wait_s: int) -> int:
    """Return the maximum time in seconds from the creation of a training job to its end.

    Args:
        job: description of a training job, or the request for it.
        max_wait_s: seconds that an on-demand job may wait for instances: SageMaker limits the wait of spot jobs only.
    """
    stopping_condition = job["StoppingCondition"]
    return int(stopping_condition.get("MaxWaitTimeInSeconds") or max_wait_s + stopping_condition["MaxRuntimeInSeconds"])


def compute_running_s(job: Mapping[str, Any], now: dt.datetime) -> float:
    """Return the seconds for which a training job has had instances, without the waits for capacity."""
    states = [state for state in job.get("SecondaryStatusTransitions", []) if state["Status"] in PAID_STATES]
    return float(sum(((state.get("EndTime") or now) - state["StartTime"]).total_seconds() for state in states))


def compute_running_cost_usd(job: Mapping[str, Any], price_usd_h: float, now: dt.datetime) -> float:
    """Return the cost of a training job until now at the on-demand price, US dollars. A spot job costs at most this.

    The cost of a tuning job, whose description has `TRIALS`, is the sum of the costs of its trials.
    """
    return sum(
        compute_running_s(training_job, now) / 3_600 * _get_instance_count(training_job) * price_usd_h
        for training_job in job.get(TRIALS, [job])
    )


def compute_billed_cost_usd(job: Mapping[str, Any], price_usd_h: float) -> float:
    """Return what an ended training job cost, US dollars."""
    # BillableTimeInSeconds is the time of one instance.
    return float(job.get("BillableTimeInSeconds", 0)) / 3_600 * _get_instance_count(job) * price_usd_h


def get_stop_time(job: Mapping[str, Any]) -> dt.datetime:
    """Return when the stop of a training job was requested, or when it ended if no stop was requested."""
    stop_times: list[dt.datetime] = [
        state["StartTime"] for state in job.get("SecondaryStatusTransitions", []) if state["Status"] == "Stopping"
    ]
    return min([*stop_times, get_end_time(job)])


def _get_instance_count(job: Mapping[str, Any]) -> int:
    return int(job["ResourceConfig"].get("InstanceCount", 1))
