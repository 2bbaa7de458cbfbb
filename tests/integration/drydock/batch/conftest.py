"""Queues for training jobs on a running drydock."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TYPE = "ml.m5.large"
END = ("SUCCEEDED", "FAILED")
# Appends the name of the service job to a file, which is the order in which the jobs ran.
NOTE = """
import os, time
with open(os.environ["RUNS"], "a") as runs:
    runs.write(os.environ["JOB"] + "\\n")
time.sleep(float(os.environ.get("SECONDS", "0")))
"""


@dataclass
class Queues:
    """Creates queues, and submits jobs whose script writes the job's name into a file.

    Attributes:
        server: The drydock.
        runs: The file to which each run of a job appends the job's name.
    """

    server: Any
    runs: Path

    @property
    def client(self) -> Any:
        """A client of AWS Batch."""
        return self.server.client("batch")

    def create(self, name: str, size: int = 1, unit: str = "NUM_INSTANCES", **fields: Any) -> str:
        """Create a service environment and a queue of the same name, and return the queue's ARN."""
        environment = self.client.create_service_environment(
            serviceEnvironmentName=name,
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=[{"maxCapacity": size, "capacityUnit": unit}],
        )["serviceEnvironmentArn"]
        order = [{"order": 1, "serviceEnvironment": environment}]
        request = {"priority": 1, "serviceEnvironmentOrder": order, "jobQueueType": "SAGEMAKER_TRAINING", **fields}
        return str(self.client.create_job_queue(jobQueueName=name, **request)["jobQueueArn"])

    def create_fair(self, name: str, size: int = 1, **policy: Any) -> str:
        """Create a queue with a fair-share policy."""
        arn = self.client.create_scheduling_policy(name=name, fairsharePolicy=policy)["arn"]
        return self.create(name, size, schedulingPolicyArn=arn)

    def create_quota(self, name: str, size: int, **shares: dict[str, Any]) -> str:
        """Create a queue with quota shares: name to limit, strategy and in-share preemption."""
        idle = {"idleResourceAssignmentStrategy": "FIFO"}
        arn = self.client.create_scheduling_policy(name=name, quotaSharePolicy=idle)["arn"]
        queue = self.create(name, size, TYPE, schedulingPolicyArn=arn)
        for share, settings in shares.items():
            self.client.create_quota_share(
                quotaShareName=share,
                jobQueue=queue,
                capacityLimits=[{"maxCapacity": settings["limit"], "capacityUnit": TYPE}],
                resourceSharingConfiguration={"strategy": settings.get("strategy", "LEND_AND_BORROW")},
                preemptionConfiguration={"inSharePreemption": settings.get("in_share", "DISABLED")},
            )
        return queue

    def build_payload(self, name: str, script: str = NOTE, **fields: Any) -> dict[str, Any]:
        """Return the request of the training job of a service job."""
        environment = {"JOB": name, "RUNS": str(self.runs), **fields.pop("Environment", {})}
        return dict(self.server.build_request(name, script, Environment=environment, **fields))

    def submit(
        self, queue: str, name: str, script: str = NOTE, *, payload: dict[str, Any] | None = None, **fields: Any
    ) -> str:
        """Submit a job, and return its id."""
        request = self.build_payload(name, script) if payload is None else payload
        response = self.client.submit_service_job(
            jobName=name,
            jobQueue=queue,
            serviceJobType="SAGEMAKER_TRAINING",
            serviceRequestPayload=json.dumps(request),
            **fields,
        )
        return str(response["jobId"])

    def describe(self, job_id: str) -> dict[str, Any]:
        """Return the description of a job."""
        return dict(self.client.describe_service_job(jobId=job_id))

    def wait_for_status(self, job_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until a job has one of some statuses, and return its description."""

        def find() -> dict[str, Any] | None:
            job = self.describe(job_id)
            return job if job["status"] in statuses else None

        return dict(self.server.wait_until(f"{statuses} of {job_id}", find))

    def wait_for_end(self, job_id: str) -> dict[str, Any]:
        """Wait for the end of a job, and return its description."""
        return self.wait_for_status(job_id, *END)

    def read_runs(self) -> list[str]:
        """Return the names of the jobs that ran, in the order of their starts."""
        return self.runs.read_text().split() if self.runs.exists() else []

    def get_training_job(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return the training job of the latest attempt of a job."""
        name = job["latestAttempt"]["serviceResourceId"]["value"].rpartition("/")[2]
        return dict(self.server.describe_job(name))


@pytest.fixture
def create_queues(tmp_path: Path) -> Callable[[Any], Queues]:
    """Return the function that returns the queues of a server."""
    return lambda server: Queues(server, tmp_path / "runs")


@pytest.fixture
def queues(drydock: Any, create_queues: Callable[[Any], Queues]) -> Queues:
    """Return the queues of the module's server."""
    return create_queues(drydock)
