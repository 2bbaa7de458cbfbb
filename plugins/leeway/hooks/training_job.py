"""SageMaker training jobs under names that are known beforehand: describe first, create only what is not there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk.exceptions import AirflowFailException
from botocore.exceptions import ClientError

from leeway.hooks.step import Logger

MAX_NAMES = 20
"""Most jobs that one task may start over all its tries."""
RUNNING = ("InProgress", "Stopping")
"""States of a job that has not ended."""
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


def inputs(
    image: str, hyperparameters: Mapping[str, Any], code: str, program: str, channels: Mapping[str, str]
) -> dict[str, Any]:
    """The part of the request that decides what model comes out: the same inputs give the same model."""
    script = {"sagemaker_program": program, "sagemaker_submit_directory": code}
    return {
        "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
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
    return f"{slug[:43]}-{told[:16]}".strip("-")


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

        Tries `base`-1, `base`-2, ...: a job from the same inputs that runs or completed is taken as it is; one that
        failed, was stopped or had other inputs is followed by the next name. One that still runs from other inputs is
        nobody's any more (the task was cleared and changed), and is stopped.

        Raises:
            AirflowFailException: `MAX_NAMES` jobs ended without success.
        """
        for number in range(1, MAX_NAMES + 1):
            name = f"{base}-{number}"
            there = self.describe(name) or self._create(name, request)
            status, same = str(there["TrainingJobStatus"]), _same(there, request)
            if same and status in (*RUNNING, "Completed"):
                self.log.info("training job %s: %s", name, status)
                return name, status
            if status == "InProgress":
                self.stop(name)
            self.log.info("training job %s: %s, %s inputs: the next one follows", name, status, _WORD[same])
        raise AirflowFailException(f"{MAX_NAMES} training jobs {base}-N ended without success: look at their logs.")

    def stop(self, name: str) -> None:
        """The job stops, or has ended."""
        self.log.info("stopping training job %s", name)
        with suppress(ClientError):  # it ended meanwhile
            self.hook.conn.stop_training_job(TrainingJobName=name)

    def _create(self, name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is there under the name now: a new job, or that of another process which was first."""
        try:
            self.hook.conn.create_training_job(TrainingJobName=name, **request)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceInUse":
                raise
            return self.describe(name) or {**request, "TrainingJobStatus": "InProgress"}
        self.log.info("started training job %s", name)
        return {**request, "TrainingJobStatus": "InProgress"}

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


_WORD = {True: "the same", False: "other"}


def _same(there: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether a job had the inputs of the request."""
    if there.get("HyperParameters") != request["HyperParameters"]:
        return False
    return all(_holds(there.get(key), request[key]) for key in ("InputDataConfig", "AlgorithmSpecification"))


def _holds(told: Any, asked: Any) -> bool:
    """Whether a description says what was asked; SageMaker adds defaults of its own (CompressionType: None)."""
    if isinstance(asked, Mapping):
        return isinstance(told, Mapping) and all(_holds(told.get(key), value) for key, value in asked.items())
    if isinstance(asked, list):
        return isinstance(told, list) and len(told) == len(asked) and all(map(_holds, told, asked))
    return bool(told == asked)


def _channel(name: str, uri: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, "InputMode": "File"}
