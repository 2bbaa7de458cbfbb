"""Test how the jobs of a killed server are recovered."""

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest

from drydock.execution.exits import CommandExit
from drydock.execution.recovery import LOST_JOB_REASON, Heartbeat, recover_job
from drydock.execution.supervise import Cause, RunEnd
from drydock.jobs.job import Job
from drydock.jobs.record import get_now
from drydock.jobs.states import Phase, Status
from drydock.jobs.training.job import TrainingJob
from drydock.store import Store

Make = Callable[..., TrainingJob]


def list_phases(job: Job) -> list[str]:
    """List the phases of a job."""
    return [str(transition.phase) for transition in job.record.transitions]


@pytest.mark.parametrize("spot", [False, True])
@pytest.mark.parametrize("phase", [Phase.DOWNLOADING, Phase.TRAINING])
def test_running_jobs_are_recovered_by_their_kind(make_job: Make, phase: Phase, spot: bool) -> None:
    job = make_job(EnableManagedSpotTraining=spot)
    job.enter_phase(phase)
    assert recover_job(job, get_now()) is None
    if spot:
        assert job.phase is Phase.INTERRUPTED and job.status is Status.IN_PROGRESS
    elif phase is Phase.DOWNLOADING:
        assert job.phase is Phase.STARTING and job.status is Status.IN_PROGRESS
    else:
        assert job.status is Status.FAILED and job.record.reason == LOST_JOB_REASON


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.INTERRUPTED])
def test_waiting_jobs_keep_waiting(make_job: Make, phase: Phase) -> None:
    job = make_job(EnableManagedSpotTraining=True)
    job.enter_phase(phase)
    before = list_phases(job)
    assert recover_job(job, get_now()) is None
    assert list_phases(job) == before and job.status is Status.IN_PROGRESS


@pytest.mark.parametrize("spot", [False, True])
def test_command_that_has_ended_is_not_run_again(make_job: Make, spot: bool) -> None:
    job = make_job(EnableManagedSpotTraining=spot)
    job.enter_phase(Phase.TRAINING)
    job.record_exit(Cause.EXIT, 3)
    job.enter_phase(Phase.UPLOADING)
    assert recover_job(job, get_now()) == RunEnd(Cause.EXIT, 3)
    assert job.status is Status.IN_PROGRESS


def test_stopping_jobs_are_recovered(make_job: Make) -> None:
    started, waiting = make_job(), make_job()
    started.enter_phase(Phase.TRAINING)
    for job in (started, waiting):
        job.request_stop()
    assert recover_job(started, get_now()) == RunEnd(Cause.STOP, 143) and not started.status.is_final
    assert recover_job(waiting, get_now()) is None and waiting.status is Status.STOPPED


def test_time_without_a_server_is_not_billed(make_job: Make) -> None:
    job = make_job(EnableManagedSpotTraining=True)
    job.enter_phase(Phase.TRAINING, since=job.created_at)
    job.record.transitions[-1].start -= timedelta(seconds=100)
    last_alive = job.record.transitions[-1].start + timedelta(seconds=10)
    recover_job(job, last_alive)
    assert job.record.transitions[-1].start == last_alive
    # A heartbeat from before the run cannot end the run before its start.
    other = make_job(EnableManagedSpotTraining=True)
    other.enter_phase(Phase.TRAINING)
    recover_job(other, other.created_at - timedelta(seconds=100))
    assert other.record.transitions[-1].start == other.record.transitions[-2].start


def test_time_without_a_server_is_not_billed_for_jobs_that_are_lost_or_stopped(make_job: Make) -> None:
    lost, stopped = make_job(), make_job()
    for job in (lost, stopped):
        job.enter_phase(Phase.TRAINING)
        job.record.transitions[-1].start -= timedelta(seconds=100)
    last_alive_at = lost.record.transitions[-1].start + timedelta(seconds=10)
    recover_job(lost, last_alive_at)
    assert lost.status is Status.FAILED and lost.ended_at == last_alive_at

    stopped.set_stopping()
    stopped.record.transitions[-1].start -= timedelta(seconds=95)
    assert recover_job(stopped, last_alive_at) == RunEnd(Cause.STOP, 143)
    stopped.enter_phase(Phase.UPLOADING)
    assert stopped.record.transitions[-2].end == last_alive_at


def test_heartbeat_is_written_once_a_second(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("drydock.execution.recovery.time", SimpleNamespace(monotonic=lambda: clock[0]))
    heart = Heartbeat(store)
    first = heart.read_last()
    heart.write_if_due()
    beat = heart.read_last()
    clock[0] += 0.5
    heart.write_if_due()
    assert first <= beat == Heartbeat(store).read_last()
    clock[0] += 0.5
    heart.write_if_due()
    assert Heartbeat(store).read_last() > beat


def test_command_that_ended_without_a_server_is_finished(make_job: Make) -> None:
    job = make_job()
    job.enter_phase(Phase.TRAINING, since=job.created_at)
    future = job.created_at + timedelta(days=1)
    assert recover_job(job, job.created_at, CommandExit(0, future)) == RunEnd(Cause.EXIT, 0)
    job.enter_phase(Phase.UPLOADING)
    assert job.record.transitions[-2].end <= job.record.transitions[-1].start


@pytest.mark.parametrize(("limit_s", "cause"), [(29, Cause.RUNTIME), (31, Cause.EXIT)])
def test_time_after_the_end_of_the_command_is_not_billed(make_job: Make, limit_s: int, cause: Cause) -> None:
    job = make_job(StoppingCondition={"MaxRuntimeInSeconds": limit_s})
    job.record.transitions[-1].start -= timedelta(seconds=1000)
    job.enter_phase(Phase.DOWNLOADING, since=job.created_at)
    job.enter_phase(Phase.TRAINING, since=job.created_at)
    ended_at = job.created_at + timedelta(seconds=30)
    assert recover_job(job, job.created_at, CommandExit(3, ended_at)) == RunEnd(cause, 3)
    job.enter_phase(Phase.UPLOADING)
    job.complete()
    assert job.record.transitions[-3].end == ended_at
    assert job.measure_seconds() in {(30, 30), (31, 31)}


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.DOWNLOADING, Phase.INTERRUPTED])
def test_exit_code_of_an_earlier_run_is_ignored(make_job: Make, phase: Phase) -> None:
    job = make_job(EnableManagedSpotTraining=True)
    job.enter_phase(phase)
    assert recover_job(job, get_now(), CommandExit(0, get_now())) is None
