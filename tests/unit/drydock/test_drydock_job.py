"""The record of a job."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from drydock.job import TrainingJob
from drydock.states import Phase, Status


def test_a_new_job_is_starting(job: TrainingJob) -> None:
    shown = job.describe()
    assert (shown["TrainingJobStatus"], shown["SecondaryStatus"]) == ("InProgress", "Starting")
    assert not {"TrainingStartTime", "FailureReason", "ModelArtifacts", "Tags"} & shown.keys()
    assert shown["EnableManagedSpotTraining"] is False


def test_a_request_without_a_limit_gets_sagemakers(make_request: Callable[..., dict[str, Any]]) -> None:
    request = make_request()
    del request["StoppingCondition"]
    job = TrainingJob(request, "1", "us-east-1", "arn")
    assert job.describe()["StoppingCondition"] == {"MaxRuntimeInSeconds": 86_400}


def test_a_second_end_changes_nothing(job: TrainingJob) -> None:
    job.end(Status.FAILED, Phase.FAILED, "first")
    before = job.describe()
    job.end(Status.COMPLETED, Phase.COMPLETED)
    job.complete()
    assert job.describe() == before and before["FailureReason"] == "first"


def test_a_job_that_is_being_stopped_goes_no_further(job: TrainingJob) -> None:
    assert job.advance(Phase.DOWNLOADING)
    assert job.request_stop() is Status.IN_PROGRESS
    assert not job.advance(Phase.TRAINING)
    assert job.request_stop() is Status.STOPPING
    job.complete()
    assert [line["Status"] for line in job.describe()["SecondaryStatusTransitions"]] == [
        "Starting",
        "Downloading",
        "Stopping",
        "Stopped",
    ]
    assert job.request_stop() is Status.STOPPED and job.training_job_status is Status.STOPPED


def test_the_same_phase_only_changes_the_message(job: TrainingJob) -> None:
    job.enter(Phase.STARTING, "waiting")
    (line,) = job.describe()["SecondaryStatusTransitions"]
    assert line["StatusMessage"] == "waiting" and "EndTime" not in line


@pytest.mark.parametrize(("seconds", "billed"), [(0.2, 1), (59.0, 59), (59.1, 60)])
def test_seconds_are_whole_and_never_none(job: TrainingJob, seconds: float, billed: int) -> None:
    job.enter(Phase.DOWNLOADING)
    job.complete()
    assert job.training_start_time is not None
    job.training_end_time = job.training_start_time + timedelta(seconds=seconds)
    shown = job.describe()
    assert shown["TrainingTimeInSeconds"] == shown["BillableTimeInSeconds"] == billed
