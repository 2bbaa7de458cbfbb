"""The base classes of all tasks that call SageMaker, and of the tasks that run SageMaker's jobs."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.connection import AwsConnection
from leeway.hooks.sagemaker.description import get_job_name, is_live
from leeway.hooks.sagemaker.named_jobs import NamedJobs, build_base_name
from leeway.hooks.sagemaker.wait import JobWait
from leeway.hooks.step.hook import Logger, StepHook

INVALID_TAG_CHARS = re.compile(r"[^\w\s.:/=+\-@]")
"""Characters that SageMaker does not allow in the value of a tag."""
USER_VARIABLE = "LEEWAY_USER"
"""Environment variable with the person for whom jobs run."""
PAYER_VARIABLES = {"team": "LEEWAY_TEAM", "environment": "LEEWAY_ENVIRONMENT", "user": USER_VARIABLE}
"""Maps the name of each tag of a job that comes from an environment variable, without `leeway:`, to this variable."""


class Wait(Protocol):
    """The wait of a task: for a job, or for the deployment of an endpoint."""

    @property
    def max_duration_s(self) -> int:
        """Longest time that the wait may take, seconds."""


class Operation(Protocol):
    """The long operation of a task in SageMaker: start or find a job or deployment, and return its result."""

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs that determine the output, for a later call of `AwsTask.prepare_operation` in the same try."""

    def resume(self, event: Any) -> Wait | dict[str, Any]:
        """Return what to wait for, or the task's result.

        Args:
            event: how the last wait of this try ended; None at the beginning of the try.
        """


class AwsTask(ABC):
    """Prepare the operation of one task that calls SageMaker and S3.

    Args:
        fields: the operator's rendered fields.
        identity: dag_id, run_id, task_id, map_index.
        connection: connection to SageMaker and S3.
        step_hook: runs steps.
        log: log of the task.
        is_retry: whether the task was tried before.
    """

    def __init__(
        self,
        fields: Any,
        identity: Mapping[str, Any],
        connection: AwsConnection,
        step_hook: StepHook,
        log: Logger,
        is_retry: bool,
    ) -> None:
        self.fields, self.identity, self.connection = fields, identity, connection
        self.step_hook, self.log, self.is_retry = step_hook, log, is_retry
        self.task_label = f"the task {identity['task_id']}"
        """Name of the task in error messages."""
        self.hook: SageMakerHook = connection.create_hook(SageMakerHook)

    @abstractmethod
    def prepare_operation(self, inputs: Mapping[str, Any] | None = None) -> Operation:
        """Check the fields, upload what SageMaker needs, and return the operation.

        Args:
            inputs: `Operation.inputs` of an earlier call in the same try: they are not built and uploaded again.

        Raises:
            AirflowFailException: a field is wrong, or a file is missing. A retry cannot help.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop the job or deployment whose wait was longer than allowed, if it can be stopped. Idempotent."""

    def kill(self) -> None:
        """Stop the step that this process runs."""
        self.step_hook.stop()

    def describe_field(self, field: str) -> str:
        """Return a field's name for error messages."""
        return f"{field} of {self.task_label}"

    def parse_count_field(self, field: str, maximum: int | None = None) -> int:
        """Return a field that is a whole number from 1 to `maximum`; see `request_checks.parse_count`."""
        return request_checks.parse_count(self.describe_field(field), getattr(self.fields, field), maximum)

    def get_setting(self, field: str, variable: str) -> str:
        """Return the value of a field or, if it is empty, of an environment variable.

        Raises:
            AirflowFailException: both are empty. A retry cannot help.
        """
        value = getattr(self.fields, field) or os.environ.get(variable, "")
        if not value:
            raise AirflowFailException(f"give {field}= to {self.task_label}, or set {variable}.")
        return str(value)

    def build_tags(self, **cost_fields: str) -> list[dict[str, str]]:
        """Return the tags of a job: the task and the cost fields; team, environment and user if they are set.

        `costs sweep` reads the tags to charge a job that no task has charged.

        Args:
            cost_fields: project, and model and priority if there are any.
        """
        fields = {"dag": "dag_id", "run": "run_id", "task": "task_id", "map-index": "map_index"}
        tags = {name: str(self.identity[field]) for name, field in fields.items()} | cost_fields
        variables = {**os.environ, **self.step_hook.env}
        tags |= {name: str(variables.get(variable, "")) for name, variable in PAYER_VARIABLES.items()}
        return [
            {"Key": f"leeway:{name}", "Value": INVALID_TAG_CHARS.sub("-", value)[:256]}
            for name, value in tags.items()
            if value
        ]

    def list_cost_fields(self) -> dict[str, str]:
        """Return the task's fields project, model and priority, for the tags of its jobs."""
        return {name: getattr(self.fields, name) for name in ("project", "model", "priority")}

    @property
    def project_folder(self) -> Path:
        """Folder of the project whose files the job gets: LEEWAY_PROJECT, or by default the working directory."""
        return Path(os.environ.get("LEEWAY_PROJECT", "."))


class JobTask(AwsTask):
    """Prepare the operation of one task, which has one job at a time."""

    jobs_class: type[NamedJobs]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        identity = {**self.identity, "run_id": self.get_job_scope()}
        base_name = build_base_name(**identity, max_chars=self.jobs_class.max_base_chars)
        self.jobs = self.jobs_class(self.hook, self.log, base_name)

    def get_job_scope(self) -> str:
        """Return an id that becomes part of the jobs' names. DAG runs with equal ids share their jobs.

        By default it is the id of the DAG run, so that DAG runs share no jobs.
        """
        return str(self.identity["run_id"])

    def stop(self) -> None:
        """Request that the live job, if there is one, stops. Idempotent."""
        attempts = self.jobs.list_attempts()
        if attempts and is_live(attempts[-1]):
            self.jobs.stop(get_job_name(attempts[-1]))

    def kill(self) -> None:
        """Stop the step and the job that this process runs."""
        super().kill()
        if self.jobs.live_job_name:
            self.log.warning("the task was killed: stopping %s job %s", self.jobs.kind, self.jobs.live_job_name)
            self.jobs.stop(self.jobs.live_job_name)

    def build_wait_template(self) -> JobWait:
        """Return a wait for a job of this task, without the job's name and limits."""
        return JobWait(
            job_name="",
            check_interval_s=self.parse_count_field("check_interval_s"),
            max_duration_s=0,
            kind=self.jobs.kind,
            **asdict(self.connection),
        )
