"""Queues without a server: real records of training jobs, which the test begins and ends, and a clock that it sets."""

import json
from pathlib import Path
from typing import Any

import pytest

from drydock.api.batch.operations import OPERATIONS, SHARED_OPERATIONS
from drydock.batch.queues import BatchQueues
from drydock.batch.scheduler import BatchScheduler
from drydock.jobs.record import SCHEMA
from drydock.jobs.states import Phase, Status
from drydock.jobs.training.job import TrainingJob
from drydock.resources import Owner
from drydock.store import Store

OWNER = Owner("123456789012", "us-east-1")
TYPE = "ml.m5.large"


class ManualTrainingJobs:
    """Training jobs whose states the test sets.

    Args:
        store: The server's storage.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        store.create_tables(SCHEMA)
        self.jobs: dict[str, TrainingJob] = {}
        self.error: BaseException | None = None

    def find(self, owner: Owner, name: str) -> TrainingJob | None:
        """Return a training job; None if it does not exist."""
        return self.jobs.get(name)

    def start(self, owner: Owner, request: dict[str, Any]) -> None:
        """Create a training job, or raise the error that the test has set."""
        if self.error:
            raise self.error
        name = request["TrainingJobName"]
        assert name not in self.jobs, f"{name} is started twice"
        arn = self.build_arn(owner, name)
        self.jobs[name] = TrainingJob.create(self._store, request, owner.account_id, owner.region, arn, 1.0)

    def stop(self, job: TrainingJob) -> None:
        """Request the stop of a training job."""
        job.request_stop()

    def build_arn(self, owner: Owner, name: str) -> str:
        """Return the ARN of a training job."""
        return f"arn:aws:sagemaker:{owner.region}:{owner.account_id}:training-job/{name}"


class Bench:
    """One server's queues. `restart` is a kill -9 and the start of the next server.

    Args:
        path: The file of the storage.
    """

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        self.training_jobs, self.now_s = ManualTrainingJobs(self.store), 1_000_000.0
        self.restart()

    def restart(self) -> None:
        """Forget everything that is not stored. The training jobs stay."""
        self.batch = BatchQueues(self.store, self.training_jobs, lambda: self.now_s)
        self.scheduler = BatchScheduler(self.batch)

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        """Return the response to a request."""
        answer = OPERATIONS.get(operation) or SHARED_OPERATIONS[operation]
        return answer(self.batch, OWNER, request)

    def create_queue(self, name: str = "queue", size: int = 1, unit: str = "NUM_INSTANCES", **fields: Any) -> str:
        """Create a service environment and a queue, and return the queue's name."""
        limits = [{"maxCapacity": size, "capacityUnit": unit}]
        self.call("CreateServiceEnvironment", serviceEnvironmentName=name, capacityLimits=limits)
        order = [{"order": 1, "serviceEnvironment": name}]
        self.call("CreateJobQueue", jobQueueName=name, serviceEnvironmentOrder=order, **{"priority": 1, **fields})
        return name

    def submit(self, queue: str, name: str, instances: int = 1, **fields: Any) -> str:
        """Submit a job, and return its id."""
        payload = {
            "TrainingJobName": name,
            "ResourceConfig": {"InstanceType": TYPE, "InstanceCount": instances},
            "AlgorithmSpecification": {},
        }
        request = {"jobName": name, "jobQueue": queue, "serviceJobType": "SAGEMAKER_TRAINING", **fields}
        return str(self.call("SubmitServiceJob", serviceRequestPayload=json.dumps(payload), **request)["jobId"])

    def describe(self, job_id: str) -> dict[str, Any]:
        """Return the description of a job."""
        return self.call("DescribeServiceJob", jobId=job_id)

    def get_status(self, job_id: str) -> str:
        """Advance everything once, and return the status of a job."""
        self.scheduler.advance()
        return str(self.describe(job_id)["status"])

    def get_training_job(self, job_id: str) -> TrainingJob:
        """Return the training job of the latest attempt."""
        arn = self.describe(job_id)["latestAttempt"]["serviceResourceId"]["value"]
        return self.training_jobs.jobs[arn.rpartition("/")[2]]

    def begin(self, job_id: str) -> None:
        """Let the training job of a job run."""
        for phase in (Phase.DOWNLOADING, Phase.TRAINING):
            self.get_training_job(job_id).enter_phase(phase)

    def end(self, job_id: str, status: Status = Status.COMPLETED, reason: str | None = None) -> None:
        """End the training job of a job."""
        self.get_training_job(job_id).end(status, Phase(str(status)), reason)


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    """Return the queues of one server."""
    bench = Bench(tmp_path / "drydock.sqlite")
    yield bench
    bench.store.close()
