"""Test that a run's states and times follow its commands, and not its log: here nothing stores the log."""

import threading
from pathlib import Path

import pytest

from drydock.execution.job_logs import SMALL_BACKLOG_BYTES, JobLogs
from drydock.execution.process import ProcessExecutor
from drydock.execution.run import Run
from drydock.faults.spot_market import SpotMarket, SpotPolicy
from drydock.host.executor import Executor
from drydock.jobs.processing.job import ProcessingJob
from drydock.jobs.record import get_now
from drydock.jobs.states import Status
from drydock.logs_store import backend
from drydock.settings import Settings
from drydock.store import Store
from tests.tools.waiting import wait_until

PRINT = f"import os; os.write(1, b'x' * {2 * SMALL_BACKLOG_BYTES}); "


@pytest.fixture(scope="module")
def executor() -> Executor:
    return ProcessExecutor(opt_ml=False)


def run_job(store: Store, data: Path, executor: Executor, code: str, *, is_stopped: bool = False) -> ProcessingJob:
    """Run a processing job, which needs no S3, to its end."""
    backend.install(store)
    cluster = {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1}
    request = {
        "ProcessingJobName": "job",
        "AppSpecification": {"ImageUri": "image", "ContainerEntrypoint": ["python3", "-c", code]},
        "ProcessingResources": {"ClusterConfig": cluster},
    }
    job = ProcessingJob.create(store, request, "123456789012", "us-east-1", "arn:job")
    settings = Settings(data, "http://127.0.0.1:1", 1, 1024, stop_grace_s=60.0)
    logs = JobLogs(store)
    run = Run(job, executor, settings, SpotMarket(SpotPolicy()), logs, threading.Event())
    if not is_stopped:
        run.execute()
        return job
    thread = threading.Thread(target=run.execute)
    thread.start()
    log = data / "processing" / "123456789012" / "us-east-1" / "job" / "algo-1.log"
    wait_until(lambda: log.exists() and log.read_bytes().endswith(b"ready\n"))
    job.request_stop()
    thread.join()
    return job


@pytest.mark.parametrize(("ending", "status"), [("", Status.COMPLETED), ("exit(3)", Status.FAILED)])
def test_job_ends_before_its_log_is_stored(
    store: Store, tmp_path: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch, ending: str, status: Status
) -> None:
    waits = []
    monkeypatch.setattr(JobLogs, "wait", lambda *_: waits.append(get_now()))
    job = run_job(store, tmp_path, executor, PRINT + ending)
    assert job.status is status
    assert status is Status.COMPLETED or "xxx" in str(job.describe()["FailureReason"])
    assert store.query("SELECT count(*) FROM log_events") == [(0,)]
    # The wait for the log is in no phase: the job had ended before it.
    assert job.ended_at is not None and job.ended_at <= waits[0]


def test_stop_does_not_wait_for_the_log(
    store: Store, tmp_path: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drydock.execution.run.LOG_WAIT_S", 3_600.0)
    code = PRINT + "os.write(1, b'ready\\n'); import time; time.sleep(3600)"
    job = run_job(store, tmp_path, executor, code, is_stopped=True)
    assert job.status is Status.STOPPED and store.query("SELECT count(*) FROM log_events") == [(0,)]
