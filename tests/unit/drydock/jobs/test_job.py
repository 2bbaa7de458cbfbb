"""Test the record of a job, and its changes."""

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from drydock.jobs.record import Record
from drydock.jobs.states import Phase, Status
from drydock.jobs.training.job import TrainingJob
from drydock.jobs.transform.job import TransformJob
from drydock.store import Store

Make = Callable[..., TrainingJob]


def load_records(store: Store) -> list[Record]:
    """Load the records of all jobs."""
    return [Record.load(text) for (text,) in store.query("SELECT record FROM jobs")]


def test_new_job_is_starting(job: TrainingJob) -> None:
    description = job.describe()
    assert (description["TrainingJobStatus"], description["SecondaryStatus"]) == ("InProgress", "Starting")
    assert not {"TrainingStartTime", "FailureReason", "ModelArtifacts", "Tags"} & description.keys()
    assert description["EnableManagedSpotTraining"] is False


@pytest.mark.parametrize("has_started", [True, False])
def test_transform_job_that_has_not_started_has_no_times(has_started: bool, store: Store) -> None:
    request = {"TransformJobName": "job", "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1}}
    job = TransformJob.create(store, request, "1", "us-east-1", "arn", {})
    if has_started:
        job.advance_to(Phase.DOWNLOADING)
    job.request_stop()
    job.complete()
    assert job.describe()["TransformJobStatus"] == "Stopped"
    assert ("TransformStartTime" in job.describe(), "TransformEndTime" in job.describe()) == (has_started, has_started)


def test_request_without_a_limit_gets_the_default_of_sagemaker(
    make_request: Callable[..., dict[str, Any]], store: Store
) -> None:
    request = make_request()
    del request["StoppingCondition"]
    job = TrainingJob.create(store, request, "1", "us-east-1", "arn", 0.3)
    assert job.describe()["StoppingCondition"] == {"MaxRuntimeInSeconds": 86_400}


def test_second_end_changes_nothing(job: TrainingJob) -> None:
    job.end(Status.FAILED, Phase.FAILED, "first")
    before = job.describe()
    job.end(Status.COMPLETED, Phase.COMPLETED)
    job.complete()
    assert job.describe() == before and before["FailureReason"] == "first"


def test_stopping_job_enters_no_other_phase(job: TrainingJob) -> None:
    assert job.advance_to(Phase.DOWNLOADING)
    assert job.request_stop() is Status.IN_PROGRESS
    assert not job.advance_to(Phase.TRAINING)
    assert job.request_stop() is Status.STOPPING
    job.complete()
    phases = [transition["Status"] for transition in job.describe()["SecondaryStatusTransitions"]]
    assert phases == ["Starting", "Downloading", "Stopping", "Stopped"]
    assert job.request_stop() is Status.STOPPED and job.training_job_status == "Stopped"


def test_same_phase_only_changes_the_message(job: TrainingJob) -> None:
    job.enter_phase(Phase.STARTING, "waiting")
    (transition,) = job.describe()["SecondaryStatusTransitions"]
    assert transition["StatusMessage"] == "waiting" and "EndTime" not in transition


@pytest.mark.parametrize(("seconds", "billed"), [(0.2, 1), (59.0, 59), (59.1, 60)])
def test_seconds_are_rounded_up_to_at_least_one(job: TrainingJob, seconds: float, billed: int) -> None:
    job.enter_phase(Phase.DOWNLOADING)
    assert job.measure_seconds() is None
    job.complete()
    first = job.record.transitions[1]
    first.end = first.start + timedelta(seconds=seconds)
    assert job.measure_seconds() == (billed, billed)


def test_spot_job_is_billed_for_a_fraction(make_job: Make) -> None:
    job = make_job(EnableManagedSpotTraining=True)
    job.enter_phase(Phase.DOWNLOADING)
    job.complete()
    first = job.record.transitions[1]
    first.end = first.start + timedelta(seconds=100)
    assert job.measure_seconds() == (100, 30)


def test_waiting_for_capacity_does_not_count_as_runtime(make_job: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 900}
    job = make_job(EnableManagedSpotTraining=True, StoppingCondition=limits)
    job.enter_phase(Phase.INTERRUPTED, since=job.created_at - timedelta(seconds=300))
    job.record.transitions[0].start -= timedelta(seconds=300)
    moment = job.created_at + timedelta(seconds=300)
    monkeypatch.setattr("drydock.jobs.description.get_now", lambda: moment)
    assert job.remaining_runtime_s == job.remaining_wait_s == 600
    assert make_job().remaining_wait_s == float("inf")


def test_every_change_is_stored_before_it_is_visible(job: TrainingJob, store: Store) -> None:
    job.save()
    job.enter_phase(Phase.TRAINING)
    assert load_records(store)[0].transitions == job.record.transitions
    job.record_exit("exit", 3)
    assert load_records(store)[0].command_end == ("exit", 3)


def test_end_is_stored_in_one_write(job: TrainingJob, store: Store) -> None:
    """A server that is killed between two writes would leave a final phase with a status that is not final."""
    writes: list[tuple[Status, Phase]] = []
    save = job.save

    def save_and_record() -> None:
        save()
        writes.extend((record.status, record.transitions[-1].phase) for record in load_records(store))

    job.save = save_and_record
    job.end(Status.FAILED, Phase.FAILED, "why")
    assert writes == [(Status.FAILED, Phase.FAILED)]


def test_job_ends_even_if_its_end_cannot_be_stored(job: TrainingJob, store: Store) -> None:
    """Otherwise its command would be repeated as long as the disk is full."""
    job.save()
    (pages,) = store.query("PRAGMA page_count")[0]
    store.query(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        job.end(Status.FAILED, Phase.FAILED, "x" * 100_000)
    assert job.status is Status.FAILED and load_records(store)[0].status is Status.IN_PROGRESS
    store.query("PRAGMA max_page_count = 100000")
    job.save()
    assert load_records(store)[0].status is Status.FAILED


def test_discarded_job_is_not_stored(job: TrainingJob, store: Store) -> None:
    job.discard()
    job.enter_phase(Phase.TRAINING)
    assert load_records(store) == []
