"""SageMaker training jobs under names that are known beforehand: describe first, create only what is not there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk.exceptions import AirflowFailException
from botocore.exceptions import ClientError

from leeway.hooks.step import Logger

MAX_NAMES = 20
"""Most jobs that one task may start over all its tries."""
LOG_GROUP = "/aws/sagemaker/TrainingJobs"


@dataclass(frozen=True)
class Machine:
    """What a job runs on, and for how long. Sizes in GB, times in seconds."""

    instance_type: str
    instance_count: int
    volume_size_gb: int
    spot: bool
    max_run_s: int
    max_wait_s: int

    def __post_init__(self) -> None:
        """Refuses what SageMaker would refuse."""
        if self.spot and self.max_wait_s < self.max_run_s:
            raise AirflowFailException(f"max_wait_s ({self.max_wait_s}) must be at least max_run_s ({self.max_run_s}).")

    @property
    def longest_s(self) -> int:
        """Longest time from the job's creation to its end."""
        return self.max_wait_s if self.spot else self.max_run_s

    def request(self) -> dict[str, Any]:
        """Its part of the request to CreateTrainingJob."""
        waiting = {"MaxWaitTimeInSeconds": self.max_wait_s} if self.spot else {}
        return {
            "EnableManagedSpotTraining": self.spot,
            "StoppingCondition": {"MaxRuntimeInSeconds": self.max_run_s, **waiting},
            "ResourceConfig": {
                "InstanceType": self.instance_type,
                "InstanceCount": self.instance_count,
                "VolumeSizeInGB": self.volume_size_gb,
            },
        }


def inputs(hyperparameters: Mapping[str, Any], code: str, program: str, channels: Mapping[str, str]) -> dict[str, Any]:
    """The part of the request that decides what model comes out: the same inputs give the same model."""
    script = {"sagemaker_program": program, "sagemaker_submit_directory": code}
    return {
        "HyperParameters": {**{name: str(value) for name, value in sorted(hyperparameters.items())}, **script},
        "InputDataConfig": [_channel(name, uri) for name, uri in sorted(channels.items())],
    }


def digest(asked: Mapping[str, Any]) -> str:
    """12 hex digits of SHA-256 of some inputs."""
    return hashlib.sha256(repr(sorted(asked.items())).encode()).hexdigest()[:12]


def base_name(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """The job's name without its number: of the task, not of the try; at most 60 of SageMaker's 63 characters."""
    told = hashlib.sha256("\0".join([dag_id, run_id, task_id, str(map_index)]).encode()).hexdigest()
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", f"{dag_id}-{task_id}").strip("-")
    return f"{slug[:43]}-{told[:16]}"


class TrainingJobs:
    """The training jobs of one account and region.

    Args:
        hook: the provider's.
        log: where decisions are told.
    """

    def __init__(self, hook: SageMakerHook, log: Logger) -> None:
        self.hook, self.log = hook, log

    def ensure(self, base: str, request: Mapping[str, Any]) -> tuple[str, str]:
        """A job for this request exists; returns its name and status. Idempotent.

        Tries `base`-1, `base`-2, ...: a job that runs, or completed from the same inputs, is taken as it is; one that
        failed, was stopped or had other inputs is followed by the next name.

        Raises:
            AirflowFailException: `MAX_NAMES` jobs ended without success.
        """
        for number in range(1, MAX_NAMES + 1):
            name = f"{base}-{number}"
            there = self.describe(name)
            if there is None:
                self.log.info("starting training job %s", name)
                self.hook.conn.create_training_job(TrainingJobName=name, **request)
                return name, "InProgress"
            status = str(there["TrainingJobStatus"])
            if status == "InProgress" or (status == "Completed" and _same(there, request)):
                self.log.info("training job %s is there already: %s", name, status)
                return name, status
            self.log.info("training job %s ended as %s, or had other inputs: the next one follows", name, status)
        raise AirflowFailException(f"{MAX_NAMES} training jobs {base}-N ended without success: look at their logs.")

    def describe(self, name: str) -> dict[str, Any] | None:
        """What SageMaker knows of a job; None where there is none."""
        try:
            return dict(self.hook.conn.describe_training_job(TrainingJobName=name))
        except ClientError as error:
            if "not found" in str(error):
                return None
            raise

    def log_lines(self, name: str) -> Iterator[str]:
        """The lines that a job wrote, host after host."""
        logs = self.hook.logs_hook
        try:
            asked = {"logGroupName": LOG_GROUP, "logStreamNamePrefix": f"{name}/"}
            for stream in logs.conn.describe_log_streams(**asked)["logStreams"]:
                for event in logs.get_log_events(LOG_GROUP, stream["logStreamName"]):
                    yield event["message"]
        except ClientError as error:
            yield f"(the job's log cannot be read: {error})"


def _same(there: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether a job had the inputs of the request."""
    return all(there.get(key) == request[key] for key in ("HyperParameters", "InputDataConfig"))


def _channel(name: str, uri: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, "InputMode": "File"}
