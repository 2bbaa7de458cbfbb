"""Find SageMaker jobs by names that do not depend on the try, so that a new try finds the earlier jobs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk.exceptions import AirflowFailException
from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import call_with_retries, get_error_code
from leeway.hooks.sagemaker.description import get_job_name
from leeway.hooks.step.hook import Logger
from pipelines.costs.job_records import TUNING_KIND

Kind = Literal["training", "processing", "transform", "tuning"]
LOST_BY_STOP = {
    "training": "work after the last checkpoint is lost",
    "processing": "its work is lost",
    "transform": "its work is lost",
    "tuning": "the trials that run are stopped, and the results of the others are kept",
}
"""What is lost if a job is stopped, by kind of job."""
NOT_FOUND_TEXTS = ("not found", "Could not find", "can't find")
"""Parts of SageMaker's error about a job or model that does not exist. In this order, they are about a
training job, about a processing or transform job or a model, and about a tuning job."""
ENDED_CODES = ("ResourceNotFound", "ValidationException")
"""Error codes of a request to stop a job that does not exist, or that has ended."""
MAX_NAMES = 99
"""Largest number of jobs that one task may start in all of its tries: the number in a job's name has two digits."""


def call_operation(client: Any, verb: str, kind: Kind, name: str, **fields: Any) -> Any:
    """Call one of SageMaker's operations on a job, such as StopTrainingJob; an async client returns an awaitable.

    Args:
        client: boto3 or aiobotocore client of SageMaker.
        verb: create, describe or stop.
        kind: kind of the job.
        name: name of the job.
        fields: other fields of the request.
    """
    operation = "hyper_parameter_tuning" if kind == "tuning" else kind
    return getattr(client, f"{verb}_{operation}_job")(**{f"{get_sagemaker_kind(kind)}JobName": name}, **fields)


def get_sagemaker_kind(kind: Kind) -> str:
    """Return the kind as it appears in SageMaker's names: CreateHyperParameterTuningJob, TrainingJobName."""
    return TUNING_KIND if kind == "tuning" else kind.capitalize()


def build_base_name(dag_id: str, run_id: str, task_id: str, map_index: int, max_chars: int = 60) -> str:
    """Return the name of a task's jobs without their number: the same for all tries of the task.

    Args:
        dag_id: DAG of the task.
        run_id: DAG run of the task.
        task_id: the task.
        map_index: its map index.
        max_chars: largest number of characters. SageMaker allows 63, and the number of a job needs three.
    """
    digest = hashlib.sha256("\0".join([dag_id, run_id, task_id, str(map_index)]).encode()).hexdigest()
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", f"{dag_id}-{task_id}").strip("-")
    return f"{slug[: max_chars - 17]}-{digest[:16]}".strip("-")


def compute_digest(inputs: Mapping[str, Any]) -> str:
    """Return 12 hex digits of the SHA-256 of a job's inputs."""
    return hashlib.sha256(repr(sorted(inputs.items())).encode()).hexdigest()[:12]


def contains(description: Any, request: Any) -> bool:
    """Return whether SageMaker's description has all values of a request; it may have others, such as defaults."""
    if isinstance(request, Mapping):
        return isinstance(description, Mapping) and all(
            contains(description.get(key), value) for key, value in request.items()
        )
    if isinstance(request, list):
        return (
            isinstance(description, list)
            and len(description) == len(request)
            and all(map(contains, description, request))
        )
    return bool(description == request)


def is_missing(error: ClientError) -> bool:
    """Return whether the error says that the requested object does not exist."""
    return any(text in str(error) for text in NOT_FOUND_TEXTS) or get_error_code(error) == "ResourceNotFound"


class NamedJobs:
    """Find and stop the jobs of one task. Their names are BASE-1, BASE-2, ...; at most one of them has not ended.

    Args:
        hook: the Amazon provider's hook of SageMaker.
        log: log of the task.
        base: name of the jobs without their number, as `build_base_name` returns it.
    """

    kind: ClassVar[Kind]
    max_base_chars: ClassVar[int] = 60
    """Largest number of characters of a job's name without its number."""

    def __init__(self, hook: SageMakerHook, log: Logger, base: str) -> None:
        self.hook, self.log, self.base = hook, log, base
        self.live_job_name = ""
        """Name of the job that this process starts, or that it found running; empty if there is none."""

    def build_name(self, number: int) -> str:
        """Return the name of an attempt's job; numbers begin at 1.

        Raises:
            AirflowFailException: the task had `MAX_NAMES` attempts. A retry cannot help.
        """
        if number > MAX_NAMES:
            raise AirflowFailException(f"{MAX_NAMES} {self.kind} jobs {self.base}-N exist already: see their logs.")
        return f"{self.base}-{number}"

    def build_next_name(self, attempts: Sequence[Mapping[str, Any]]) -> str:
        """Return the name of the next attempt's job.

        Args:
            attempts: the result of `list_attempts`.
        """
        return self.build_name(len(attempts) + 1)

    def get_attempt_name(self, job: Mapping[str, Any]) -> str:
        """Return the name of the attempt that a described job belongs to: BASE-N."""
        return get_job_name(job)

    def list_attempts(self) -> list[dict[str, Any]]:
        """Return SageMaker's description of every attempt, oldest first."""
        jobs: list[dict[str, Any]] = []
        while len(jobs) < MAX_NAMES and (job := self.describe(self.build_name(len(jobs) + 1))):
            jobs.append(job)
        return jobs

    def describe(self, name: str) -> dict[str, Any] | None:
        """Return SageMaker's description of a job; None if there is no such job."""
        try:
            return dict(self._call("describe", name))
        except ClientError as error:
            if is_missing(error):
                return None
            raise

    def stop(self, name: str) -> None:
        """Request the stop of a job; do nothing if the job has ended. Idempotent.

        Raises:
            ClientError: the request was refused, for example because the role may not stop jobs.
        """
        try:
            self._call("stop", name)
        except ClientError as error:
            if get_error_code(error) not in ENDED_CODES:
                raise
            return
        self.log.warning("%s job %s: stop requested; %s", self.kind, name, LOST_BY_STOP[self.kind])

    def _call(self, verb: str, name: str) -> Any:
        return call_with_retries(lambda: call_operation(self.hook.conn, verb, self.kind, name), self.log)
