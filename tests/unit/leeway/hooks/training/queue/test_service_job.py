"""Test what is read from AWS Batch's description of a service job: waits of preempted jobs."""

import datetime as dt
from typing import Any

from leeway.hooks.training.queue.service_job import (
    compute_queue_s,
    describe_attempts,
    find_queue_start,
    list_training_job_names,
)

BEGIN = dt.datetime(2026, 11, 2, 8, tzinfo=dt.UTC)


def to_ms(minutes: int) -> int:
    """Return the milliseconds since 1970 of a moment, minutes after `BEGIN`."""
    return int((BEGIN + dt.timedelta(minutes=minutes)).timestamp() * 1_000)


def make_attempt(number: int) -> dict[str, Any]:
    """Return an attempt that ran from minute 20 to 30 of its half hour."""
    name = {"name": "TrainingJobArn", "value": f"arn:aws:sagemaker:us-east-1:1:training-job/train-{number}"}
    return {"serviceResourceId": name, "stoppedAt": to_ms(30 * number + 30)}


def make_training_job(number: int, status: str = "Stopped") -> dict[str, Any]:
    """Return the description of the training job of an attempt."""
    begin = BEGIN + dt.timedelta(minutes=30 * number + 20)
    times = {"CreationTime": begin, "TrainingEndTime": begin + dt.timedelta(minutes=10)}
    return {"TrainingJobName": f"train-{number}", "TrainingJobStatus": status, **times}


def make_service_job(preempted: int, shown: int) -> dict[str, Any]:
    """Return a service job that completed after some preemptions, of which the newest are shown, newest first."""
    attempts = [make_attempt(number) for number in range(preempted)]
    summary = {"preemptedAttemptCount": preempted, "recentPreemptedAttempts": attempts[::-1][:shown]}
    last = make_attempt(preempted)
    fields = {"jobName": "train", "jobId": "1", "createdAt": to_ms(0), "status": "SUCCEEDED"}
    return {**fields, "preemptionSummary": summary, "attempts": [last], "latestAttempt": last}


def describe_waits(preempted: int, shown: int) -> list[float | None]:
    """Return the waits in the queue of the training jobs that are shown, minutes."""
    service_job = make_service_job(preempted, shown)
    numbers = [int(name.rpartition("-")[2]) for name in list_training_job_names(service_job)]
    jobs = [make_training_job(number, "Completed" if number == preempted else "Stopped") for number in numbers]
    waits = [compute_queue_s(job) for job in describe_attempts(service_job, jobs)]
    return [None if wait_s is None else wait_s / 60 for wait_s in waits]


def test_a_preempted_job_waits_from_the_end_of_the_training_job_before() -> None:
    assert describe_waits(preempted=2, shown=2) == [20, 20, 20]
    assert find_queue_start(make_service_job(2, 2)) == BEGIN + dt.timedelta(minutes=90)


def test_the_wait_of_the_first_shown_attempt_is_not_known_if_aws_shows_none_before_it() -> None:
    """Since its submission, the service job had trained, too: all of that time is no wait."""
    assert describe_waits(preempted=12, shown=10) == [None] + [20] * 10
