"""What becomes of jobs whose server was killed."""

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest

from drydock.execution.recovery import LOST, Heartbeat, recover_job
from drydock.execution.supervise import Cause, RunEnd
from drydock.jobs.job import Job
from drydock.jobs.record import now
from drydock.jobs.states import Phase, Status
from drydock.jobs.training.job import TrainingJob
from drydock.store import Store

Make = Callable[..., TrainingJob]


def phases(job: Job) -> list[str]:
    return [str(line.phase) for line in job.record.transitions]


@pytest.mark.parametrize("spot", [False, True])
@pytest.mark.parametrize("phase", [Phase.DOWNLOADING, Phase.TRAINING])
def test_recovers_running_jobs_by_their_kind(make_job: Make, phase: Phase, spot: bool) -> None:
    job = make_job(EnableManagedSpotTraining=spot)
    job.enter_phase(phase)
    assert recover_job(job, now()) is None
    if spot:
        assert job.phase is Phase.INTERRUPTED and job.status is Status.IN_PROGRESS
    elif phase is Phase.DOWNLOADING:
        assert job.phase is Phase.STARTING and job.status is Status.IN_PROGRESS
    else:
        assert job.status is Status.FAILED and job.record.reason == LOST


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.INTERRUPTED])
def test_waiting_jobs_keep_waiting(make_job: Make, phase: Phase) -> None:
    job = make_job(EnableManagedSpotTraining=True)
    job.enter_phase(phase)
    before = phases(job)
    assert recover_job(job, now()) is None
    assert phases(job) == before and job.status is Status.IN_PROGRESS


@pytest.mark.parametrize("spot", [False, True])
def test_a_command_that_had_ended_is_not_run_again(make_job: Make, spot: bool) -> None:
    job = make_job(EnableManagedSpotTraining=spot)
    job.enter_phase(Phase.TRAINING)
    job.record_exit(Cause.EXIT, 3)
    job.enter_phase(Phase.UPLOADING)
    assert recover_job(job, now()) == RunEnd(Cause.EXIT, 3)
    assert job.status is Status.IN_PROGRESS


def test_recovers_stopping_jobs(make_job: Make) -> None:
    ran, waited = make_job(), make_job()
    ran.enter_phase(Phase.TRAINING)
    for job in (ran, waited):
        job.request_stop()
    assert recover_job(ran, now()) == RunEnd(Cause.STOP, 143) and not ran.status.is_final
    assert recover_job(waited, now()) is None and waited.status is Status.STOPPED


def test_time_without_a_server_is_not_billed(make_job: Make) -> None:
    job = make_job(EnableManagedSpotTraining=True)
    job.enter_phase(Phase.TRAINING, since=job.created_at)
    job.record.transitions[-1].start -= timedelta(seconds=100)
    last_alive = job.record.transitions[-1].start + timedelta(seconds=10)
    recover_job(job, last_alive)
    assert job.record.transitions[-1].start == last_alive
    # A beat from before the run began cannot end it before its start.
    other = make_job(EnableManagedSpotTraining=True)
    other.enter_phase(Phase.TRAINING)
    recover_job(other, other.created_at - timedelta(seconds=100))
    assert other.record.transitions[-1].start == other.record.transitions[-2].start


def test_the_heartbeat_is_written_once_a_second(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("drydock.execution.recovery.time", SimpleNamespace(monotonic=lambda: clock[0]))
    heart = Heartbeat(store)
    first = heart.read_last()
    heart.write_if_due()
    beaten = heart.read_last()
    clock[0] += 0.5
    heart.write_if_due()
    assert first <= beaten == Heartbeat(store).read_last()
    clock[0] += 0.5
    heart.write_if_due()
    assert Heartbeat(store).read_last() > beaten
