"""Test SpotTrainingOperator(queue=...) with the queues of a real drydock: each service job has one training job."""

import asyncio
import json
import signal
import sys
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from leeway.hooks.training.queue.wait_in_queue import submit_job
from leeway.triggers.queued_job import QueuedJobTrigger

from pipelines.costs.ledger import Ledger
from tests.tools import forking
from tests.tools.outages import ONE_ATTEMPT, post_to_drydock

TYPE = "ml.m5.large"
FAIR, QUOTA = {"fairsharePolicy": {}}, {"quotaSharePolicy": {"idleResourceAssignmentStrategy": "FIFO"}}


@dataclass
class Queue:
    """A queue of a drydock, and the jobs in it."""

    drydock: Any
    name: str

    @property
    def batch(self):
        """A client of AWS Batch."""
        return self.drydock.client("batch")

    def list_jobs(self) -> list[dict[str, Any]]:
        """Return the descriptions of all service jobs of the queue, oldest first."""
        filters = [{"name": "AFTER_CREATED_AT", "values": ["0"]}]
        jobs = self.batch.list_service_jobs(jobQueue=self.name, filters=filters)["jobSummaryList"]
        return [self.batch.describe_service_job(jobId=job["jobId"]) for job in reversed(jobs)]

    def list_training_jobs(self) -> list[dict[str, Any]]:
        """Return the descriptions of the training jobs of all service jobs of the queue, oldest first."""
        arns = {job["jobArn"] for job in self.list_jobs()}
        names = [name for name in self.drydock.list_jobs() if name.startswith("AWSBatch")]
        jobs = [self.drydock.describe_job(name) for name in names]
        assert arns or not jobs
        return sorted(
            (job for job in jobs if job["Environment"].get("QUEUE") == self.name), key=lambda job: job["CreationTime"]
        )

    def block(self, name: str = "blocker", **fields: Any) -> str:
        """Submit a job that runs until `unblock`; return its id. The script waits for a file that never exists."""
        request = {**self.list_training_jobs()[0], **fields}
        return str(request)


@pytest.fixture
def make_queue(drydock, request):
    """Return the function that creates a queue for some instances, with a scheduling policy."""
    batch, numbers = drydock.client("batch"), iter(range(9))

    def make(size: int = 1, policy: dict[str, Any] | None = None, unit: str = "NUM_INSTANCES", state: str = "ENABLED"):
        name = f"q{abs(hash(request.node.name)) % 10**8}-{next(numbers)}"
        batch.create_service_environment(
            serviceEnvironmentName=name,
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=[{"maxCapacity": size, "capacityUnit": unit}],
        )
        policy_fields = (
            {"schedulingPolicyArn": batch.create_scheduling_policy(name=name, **policy)["arn"]} if policy else {}
        )
        batch.create_job_queue(
            jobQueueName=name,
            jobQueueType="SAGEMAKER_TRAINING",
            priority=1,
            state=state,
            serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": name}],
            **policy_fields,
        )
        return Queue(drydock, name)

    return make


@pytest.fixture
def make_task(make_spot_task):
    """Return the function that makes a task whose jobs go to a queue, and name it in a variable."""

    def make(queue: Queue, mode: str = "ok", **fields: Any):
        return make_spot_task(mode, queue=queue.name, environment={"QUEUE": queue.name}, **fields)

    return make


def make_context(run_id: str) -> dict[str, Any]:
    """Return the context of another run of the task."""
    return {"ti": SimpleNamespace(run_id=run_id, map_index=-1, try_number=1)}


def test_job_is_submitted_with_share_and_priority_and_gives_the_result(
    drydock, project, make_queue, make_task, context, start, finish, capsys
):
    queue = make_queue(policy=FAIR)
    fields = {"share": "teamA", "priority": "high"}
    deferral = start(make_task(queue, **fields), context)
    # Airflow's own limit of the wait has room for the queue.
    assert deferral.timeout.total_seconds() >= 604_800 + 900
    result = finish(make_task(queue, **fields), deferral)
    (service_job,) = queue.list_jobs()
    assert service_job["jobName"] == deferral.trigger.wait.job_name
    assert (service_job["shareIdentifier"], service_job["schedulingPriority"]) == ("teamA", 1_000)
    assert service_job["tags"]["leeway:task"] == "train"
    (job,) = queue.list_training_jobs()
    assert service_job["latestAttempt"]["serviceResourceId"]["value"] == job["TrainingJobArn"]
    assert job["StoppingCondition"] == {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 900}
    assert (result["training_job"], result["status"]) == (job["TrainingJobName"], "Completed")
    assert (result["service_job"], result["attempts"]) == (service_job["jobId"], 1)
    assert drydock.read_archive(result["model"]) == {"model": f"{project.parent.name} 13".encode()}
    log = capsys.readouterr().out
    assert f"to queue {queue.name}" in log and f"trained on {project.parent.name} ok" in log
    # A retry collects the result, and starts nothing.
    assert make_task(queue, **fields).execute(context) == result
    assert len(queue.list_jobs()) == 1
    (row,) = Ledger.open().read_rows()
    assert row["queue_s"] is not None and row["queue_s"] == pytest.approx(result["queue_s"], abs=1e-3)
    assert row["priority"] == "high"
