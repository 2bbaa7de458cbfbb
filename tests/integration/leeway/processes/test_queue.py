"""Test SpotTrainingOperator(job_queue=...) in a real Airflow of four processes: kill -9, and a clear."""

from __future__ import annotations

import random
import threading
import uuid
from typing import Any

import pytest


@pytest.fixture
def queue(airflow: Any) -> str:
    """Create a queue for one instance, and return its name."""
    batch, name = airflow.drydock.client("batch"), f"queue-{uuid.uuid4().hex[:8]}"
    batch.create_service_environment(
        serviceEnvironmentName=name,
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
    )
    order = [{"order": 1, "serviceEnvironment": name}]
    batch.create_job_queue(
        jobQueueName=name, jobQueueType="SAGEMAKER_TRAINING", priority=1, serviceEnvironmentOrder=order
    )
    return name


def list_service_jobs(run: Any, queue: str) -> list[dict[str, Any]]:
    """Return the service jobs of a run's task, oldest first."""
    batch = run.airflow.drydock.client("batch")
    filters = [{"name": "JOB_NAME", "values": [f"{run.job_base_name}-*"]}]
    return batch.list_service_jobs(jobQueue=queue, filters=filters)["jobSummaryList"][::-1]


def kill_processes(airflow: Any, rng: random.Random, count: int) -> None:
    """Kill the task processes, the triggerer or the scheduler at random moments, and start them again."""
    for _ in range(count):
        threading.Event().wait(4 * rng.random())
        victim = rng.choice(["tasks", "triggerer", "scheduler"])
        if victim == "tasks":
            airflow.kill_tasks()
            victim = "scheduler"  # LocalExecutor does not replace workers that were killed
        airflow.kill(victim)
        airflow.start(victim)


@pytest.mark.soak
def test_kills_leave_one_service_job_with_one_training_job(airflow, start_run, until, queue):
    """The first task is killed while it submits and trains, the second one while it waits in the queue."""
    runs = [start_run("spot_queued", "train", wait_for_job=False, queue=queue) for _ in range(2)]
    kill_processes(airflow, random.Random(0), 4)
    runs[0].release_file.touch()
    until(lambda: [run.get_state() for run in runs] == ["success"] * 2, 300)
    for run in runs:
        (service_job,) = list_service_jobs(run, queue)
        assert (service_job["jobName"], service_job["status"]) == (f"{run.job_base_name}-1", "SUCCEEDED")
        result = run.get_result()
        assert (result["service_job"], result["attempts"]) == (service_job["jobId"], 1)
    names = [name for name in airflow.drydock.list_jobs() if name.startswith("AWSBatch")]
    assert len(names) == len({run.get_result()["training_job"] for run in runs}) == 2


@pytest.mark.soak
def test_clear_terminates_the_service_job_and_the_next_one_resumes(start_run, until, queue):
    run = start_run("spot_queued", "train", wait_for_job=False, queue=queue)
    until(lambda: "trained on rows wait" in run.read_logs(), 250)
    run.clear_task()
    until(lambda: [job["status"] for job in list_service_jobs(run, queue)][:1] == ["FAILED"], 60)
    until(lambda: len(list_service_jobs(run, queue)) == 2, 250)
    run.release_file.touch()
    until(lambda: run.get_state() == "success", 250)
    assert [job["status"] for job in list_service_jobs(run, queue)] == ["FAILED", "SUCCEEDED"]
    assert run.get_result()["attempts"] == 2
    until(lambda: "after ['step-0']" in run.read_logs(), 60)
