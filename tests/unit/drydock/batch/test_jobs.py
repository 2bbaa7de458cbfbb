"""Test that service jobs that a server stored are read again, also by a server with other names of fields."""

import json

import pytest

from drydock.batch.jobs import Attempt, ServiceJob, StopCause

ATTEMPT = {
    "training_job": "AWSBatchtrain1",
    "training_job_arn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/AWSBatchtrain1",
    "environment": "arn:aws:batch:us-east-1:123456789012:service-environment/one",
    "scheduled_ms": 2,
    "started_ms": 3,
    "stopped_ms": None,
    "reason": "",
    "stop_cause": "preempted",
    "stop_reason": "Preempted by a job of the share a",
}
ENDED_ATTEMPT = {**ATTEMPT, "training_job": "AWSBatchtrain0", "stopped_ms": 4, "reason": "error", "stop_cause": None}
STORED = {
    "name": "train",
    "arn": "arn:aws:batch:us-east-1:123456789012:service-job/1",
    "tags": {"team": "a"},
    "id": "1",
    "number": 7,
    "request": {"jobName": "train", "shareIdentifier": "a"},
    "queue_arn": "arn:aws:batch:us-east-1:123456789012:job-queue/q",
    "instance_type": "ml.m5.large",
    "instances": 1,
    "created_ms": 1,
    "priority": 0,
    "status": "RUNNING",
    "status_reason": "",
    "is_terminated": False,
    "current": ATTEMPT,
    "last": ATTEMPT,
    "attempts": [ENDED_ATTEMPT],
    "preempted": [ATTEMPT],
    "started_ms": 3,
    "stopped_ms": None,
}


def test_a_stored_job_has_the_same_keys_as_before() -> None:
    job = ServiceJob.load(json.dumps(STORED))
    assert job.current_attempt == job.latest_attempt == Attempt(**{**ATTEMPT, "stop_cause": StopCause.PREEMPTED})
    assert [attempt.training_job for attempt in job.ended_attempts] == ["AWSBatchtrain0"]
    assert [attempt.training_job for attempt in job.preempted_attempts] == ["AWSBatchtrain1"]
    assert json.loads(job.dump()) == STORED


@pytest.mark.parametrize("key", ["current", "last"])
def test_a_stored_job_without_an_attempt_has_none(key: str) -> None:
    assert json.loads(ServiceJob.load(json.dumps({**STORED, key: None})).dump())[key] is None
