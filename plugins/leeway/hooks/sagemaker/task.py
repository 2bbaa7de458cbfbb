"""The base class of all tasks that run SageMaker jobs."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.connection import AwsConnection
from leeway.hooks.sagemaker.description import get_job_name, is_live
from leeway.hooks.sagemaker.named_jobs import NamedJobs, build_base_name
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger, StepHook

NOT_IN_TAGS = re.compile(r"[^\w\s.:/=+\-@]")
"""Characters that the value of a tag may not have."""


class Work(Protocol):
    """The rest of a task's work, which depends on the jobs that earlier tries started."""

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs that decide the output, for a later call in the same try."""

    def resume(self, event: WaitEvent | None) -> JobWait | dict[str, Any]:
        """Return the job to wait for, or the task's result; see `Attempts.resume`."""


class JobTask(ABC):
    """One task that has one job at a time.

    Args:
        fields: the operator's rendered fields.
        identity: dag_id, run_id, task_id, map_index.
        connection: connection to SageMaker and S3.
        step: runs steps.
        log: log of the task.
        is_retry: whether the task was tried before.
    """

    kind: type[NamedJobs]

    def __init__(
        self,
        fields: Any,
        identity: Mapping[str, Any],
        connection: AwsConnection,
        step: StepHook,
        log: Logger,
        is_retry: bool,
    ) -> None:
        self.fields, self.identity, self.connection, self.step, self.log = fields, identity, connection, step, log
        self.is_retry = is_retry
        self.task = f"the task {identity['task_id']}"
        self.hook: SageMakerHook = connection.create_hook(SageMakerHook)
        self.jobs = self.kind(self.hook, log, build_base_name(**{**identity, "run_id": self.get_job_scope()}))

    def get_job_scope(self) -> str:
        """Return the id in whose scope the task has one job: by default, the id of the DAG run."""
        return str(self.identity["run_id"])

    @abstractmethod
    def prepare_work(self, inputs: Mapping[str, Any] | None = None) -> Work:
        """Check the fields, upload what the job needs, and return the work.

        Args:
            inputs: `Work.inputs` of an earlier call in the same try; nothing is read or uploaded for them again.

        Raises:
            AirflowFailException: a field is wrong, or a file is missing. A retry cannot help.
        """

    def stop(self) -> None:
        """Request that the live job, if there is one, stops. Idempotent."""
        attempts = self.jobs.list_attempts()
        if attempts and is_live(attempts[-1]):
            self.jobs.stop(get_job_name(attempts[-1]))

    def kill(self) -> None:
        """Stop what this process started: its step and its job."""
        self.step.kill()
        if self.jobs.live:
            self.log.warning("the task was killed: stopping %s job %s", self.jobs.kind, self.jobs.live)
            self.jobs.stop(self.jobs.live)

    def describe_field(self, field: str) -> str:
        """Return a field's name for error messages."""
        return f"{field} of {self.task}"

    def parse_count_field(self, field: str, most: int | None = None) -> int:
        """Return a field that is a whole number from 1 to `most`."""
        return request_checks.parse_count(self.describe_field(field), getattr(self.fields, field), most)

    def get_setting(self, field: str, variable: str) -> str:
        """Return a field or, if it is empty, the environment variable that replaces it.

        Raises:
            AirflowFailException: both are empty. A retry cannot help.
        """
        value = getattr(self.fields, field) or os.environ.get(variable, "")
        if not value:
            raise AirflowFailException(f"give {field}= to {self.task}, or set {variable}.")
        return str(value)

    def build_wait_template(self) -> JobWait:
        """Return a wait for a job of this task, without the job's name and limits."""
        return JobWait(
            job_name="",
            check_interval_s=self.parse_count_field("check_interval_s"),
            longest_s=0,
            kind=self.jobs.kind,
            aws_conn_id=self.connection.aws_conn_id,
            region_name=self.connection.region_name,
            verify=self.connection.verify,
            botocore_config=self.connection.botocore_config,
        )

    def build_tags(self, **more: str) -> list[dict[str, str]]:
        """Return the tags that say whose a job is: `costs sweep` charges by them if the task does not run again."""
        fields = {"dag": "dag_id", "run": "run_id", "task": "task_id", "map-index": "map_index"}
        tags = {name: str(self.identity[field]) for name, field in fields.items()} | more
        return [
            {"Key": f"leeway:{name}", "Value": NOT_IN_TAGS.sub("-", value)[:256]}
            for name, value in tags.items()
            if value
        ]

    @property
    def project(self) -> Path:
        """Folder of the code that is uploaded for the job."""
        return Path(os.environ.get("LEEWAY_PROJECT", "."))
