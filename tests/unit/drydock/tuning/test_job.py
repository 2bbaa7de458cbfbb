"""Test a tuning job step by step: in which order it stores and starts trials, and what it does after errors."""

import datetime as dt
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from drydock.jobs.record import ParentTuning
from drydock.jobs.states import Phase, Status
from drydock.resources import Owner, Resources
from drydock.store import Store
from drydock.tuning.job import TuningJob
from drydock.tuning.records import Ending, ParentTrial, StopCause, TrialRecord, TuningRecord
from drydock.tuning.registry import TuningJobs

OWNER = Owner("123456789012", "us-east-1")
CREATED_AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class TrainingJobs:
    """Training jobs that only the test ends."""

    def __init__(self, make_job: Callable[..., Any]) -> None:
        self.jobs: dict[str, Any] = {}
        self._make_job = make_job

    def find(self, owner: Owner, name: str) -> Any:
        """Return a job; None if it does not exist."""
        return self.jobs.get(name)

    def start(self, owner: Owner, request: dict[str, Any], tuning: ParentTuning) -> None:
        """Create a job, and refuse a second one of the same name."""
        name = request["TrainingJobName"]
        assert name not in self.jobs
        self.jobs[name] = self._make_job(TrainingJobName=name)

    def stop(self, job: Any) -> None:
        """Stop a job."""
        job.request_stop()
        job.complete()

    def end_all(self, *values: float | None, status: Status = Status.COMPLETED, reason: str | None = None) -> None:
        """End the jobs that run, with these values of the objective."""
        for job in self.jobs.values():
            if not job.status.is_final:
                job.record.objective_values = list(values)
                job.end(status, Phase(status), reason)


@pytest.fixture
def training_jobs(make_job: Callable[..., Any]) -> TrainingJobs:
    """Return training jobs that only the test ends."""
    return TrainingJobs(make_job)


@pytest.fixture
def make_tuning(
    make_tuning_request: Callable[..., dict[str, Any]], store: Store, training_jobs: TrainingJobs
) -> Callable[..., TuningJob]:
    """Return the function that makes a tuning job with some parts of its request changed."""

    def make(**changes: Any) -> TuningJob:
        request = make_tuning_request(**{"Strategy": "Random", **changes})
        record = TuningRecord("tuning", "arn", request, [], 7, CREATED_AT, CREATED_AT)
        resources = Resources(store, "tuning-job")
        return TuningJob(OWNER, record, resources, training_jobs, lambda: CREATED_AT + dt.timedelta(seconds=200))

    return make


def load(store: Store) -> TuningRecord:
    """Return the record as it is stored."""
    (text,) = Resources(store, "tuning-job").list_texts(OWNER)
    return TuningRecord.load(text)


def test_record_survives_as_text() -> None:
    trial = TrialRecord("t", {"rate": "0.5"}, 1, StopCause.PRUNED)
    record = TuningRecord("n", "arn", {"a": 1}, [], 7, CREATED_AT, CREATED_AT, Status.STOPPING, Ending(Status.STOPPED))
    record.trials, record.ended_at = [trial, TrialRecord("u", {})], CREATED_AT
    record.parent_trials = [ParentTrial({"TrainingJobName": "p"}, {"rate": "1"}, 0.5)]
    assert TuningRecord.load(record.dump()) == record


def test_trials_run_in_parallel_up_to_the_limit(make_tuning: Any, training_jobs: TrainingJobs) -> None:
    job = make_tuning(limits={"MaxNumberOfTrainingJobs": 3})
    for expected_count in (2, 2):
        job.advance()
        assert len(training_jobs.jobs) == expected_count
    training_jobs.end_all(1.0)
    job.advance()
    assert len(training_jobs.jobs) == 3 and job.status is Status.IN_PROGRESS
    training_jobs.end_all(0.5)
    job.advance()
    assert job.status is Status.COMPLETED and len({tuple(item.values.items()) for item in job.record.trials}) == 3


def test_trial_is_stored_before_it_starts(make_tuning: Any, training_jobs: TrainingJobs, store: Store) -> None:
    job = make_tuning()
    training_jobs.start = lambda *_: (_ for _ in ()).throw(SystemExit)  # the server is killed
    with pytest.raises(SystemExit):
        job.advance()
    del training_jobs.start
    (trial,) = load(store).trials
    restored = TuningJob(OWNER, load(store), Resources(store, "tuning-job"), training_jobs)
    restored.advance()
    assert trial.name in training_jobs.jobs and len(training_jobs.jobs) == 2


def test_trial_that_cannot_be_stored_does_not_start(
    make_tuning: Any, training_jobs: TrainingJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_tuning()
    with monkeypatch.context() as patch:
        patch.setattr(job, "save", lambda: (_ for _ in ()).throw(sqlite3.OperationalError("disk full")))
        with pytest.raises(sqlite3.OperationalError):
            job.advance()
    assert training_jobs.jobs == {} and job.record.trials == []
    job.advance()
    assert len(training_jobs.jobs) == 2


def test_stored_trial_of_a_stopped_job_never_starts(make_tuning: Any, training_jobs: TrainingJobs) -> None:
    job = make_tuning()
    job.record.trials = [TrialRecord("tuning-001-1", {"rate": "0.5"})]
    assert job.request_stop() is Status.IN_PROGRESS and job.request_stop() is Status.STOPPING
    job.advance()
    assert job.status is Status.STOPPED and training_jobs.jobs == {} and job.record.trials == []


def test_trial_is_stopped_if_the_server_was_killed_before_that(
    make_tuning: Any, training_jobs: TrainingJobs, store: Store
) -> None:
    job = make_tuning()
    job.advance()
    job.record.trials[0].stop_cause = StopCause.PRUNED
    job.save()
    restored = TuningJob(OWNER, load(store), Resources(store, "tuning-job"), training_jobs)
    restored.advance()
    assert [item.status for item in training_jobs.jobs.values()][:2] == [Status.STOPPED, Status.IN_PROGRESS]


def test_runtime_limit_stops_the_trials(make_tuning: Any, training_jobs: TrainingJobs) -> None:
    job = make_tuning(limits={"MaxRuntimeInSeconds": 300})
    job.advance()
    job.record.created_at -= dt.timedelta(seconds=100)
    for running_job in training_jobs.jobs.values():
        running_job.record.objective_values = [0.5]
    job.advance()
    assert job.status is Status.COMPLETED and {item.status for item in training_jobs.jobs.values()} == {Status.STOPPED}
    assert {trial.stop_cause for trial in job.record.trials} == {StopCause.TUNING_ENDED}
    assert len(training_jobs.jobs) == 2


@pytest.mark.parametrize(("retries", "count"), [(0, 2), (1, 4)])
def test_internal_errors_are_retried_with_the_same_values(
    make_tuning: Any, training_jobs: TrainingJobs, retries: int, count: int
) -> None:
    definition = {"RetryStrategy": {"MaximumRetryAttempts": retries}} if retries else {}
    job = make_tuning(limits={"MaxNumberOfTrainingJobs": 2}, definition=definition)
    for _ in range(3):
        job.advance()
        training_jobs.end_all(status=Status.FAILED, reason="InternalServerError: the server ended")
    job.advance()
    assert job.status is Status.FAILED and len(job.record.trials) == count
    assert len({tuple(trial.values.items()) for trial in job.record.trials}) == 2


def test_failed_scripts_are_not_retried(make_tuning: Any, training_jobs: TrainingJobs) -> None:
    definition = {"RetryStrategy": {"MaximumRetryAttempts": 3}}
    job = make_tuning(limits={"MaxNumberOfTrainingJobs": 2}, definition=definition)
    job.advance()
    training_jobs.end_all(status=Status.FAILED, reason="AlgorithmError: exit code 1")
    job.advance()
    assert job.status is Status.FAILED and len(job.record.trials) == 2


def test_registry_refuses_names_in_use_and_keeps_what_is_stored(
    make_tuning_request: Any, store: Store, training_jobs: TrainingJobs
) -> None:
    record = TuningRecord("tuning", "arn", make_tuning_request(), [], 7, CREATED_AT, CREATED_AT)
    registry = TuningJobs(store, training_jobs)
    assert registry.create(OWNER, record)
    assert not registry.create(OWNER, TuningRecord("TUNING", "arn", {}, [], 7, CREATED_AT, CREATED_AT))
    assert registry.create(Owner(OWNER.account_id, "eu-west-1"), record)
    assert TuningJobs(store, training_jobs).get_jobs(OWNER)["tuning"].record == record
    job = registry.get_jobs(OWNER)["tuning"]
    registry.delete_all(OWNER)
    job.advance()
    assert training_jobs.jobs == {} and registry.get_jobs(OWNER) == {} == TuningJobs(store, training_jobs).get_jobs(
        OWNER
    )
    registry.close()
