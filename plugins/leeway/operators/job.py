"""The base classes of the operators that start a job or a deployment in SageMaker and wait for its end."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from abc import abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import TaskDeferralTimeout
from airflow.triggers.base import BaseTrigger

from leeway.hooks.sagemaker.aws_errors import raise_airflow_errors
from leeway.hooks.sagemaker.connection import AwsConnection
from leeway.hooks.sagemaker.priority import Priority, build_priority_fields
from leeway.hooks.sagemaker.task import USER_VARIABLE, AwsTask, Wait
from leeway.hooks.sagemaker.wait import MARGIN_S, JobWait
from leeway.hooks.sagemaker.wait_for_job import start_and_wait_for_job
from leeway.hooks.step.hook import StepHook
from leeway.operators.output import ResultOutputMixin
from leeway.triggers.job import JobTrigger

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class SageMakerOperator(ResultOutputMixin, BaseOperator):
    """Prepare a job or a deployment of SageMaker, start it and wait for its end.

    If the task is deferrable, a trigger starts the job or deployment and waits; otherwise the worker does both.

    A subclass inherits from this class first, and then from an operator of the Amazon provider, whose constructor is
    used.
    """

    job_task_class: ClassVar[type[AwsTask]]
    """Class that prepares the job or deployment, and collects its result."""
    job_fields_class: ClassVar[type[DataclassInstance]]
    """Dataclass with the operator's attributes that `job_task_class` needs."""
    aws_conn_id: str | None
    region_name: str | None
    verify: bool | str | None
    botocore_config: dict[str, Any] | None
    deferrable: bool
    python: str
    env: Mapping[str, str] | None
    _job_task: AwsTask | None = None

    def __init__(self, **kwargs: Any) -> None:
        # Airflow wraps the constructor of each class. Without this constructor, Airflow would call that of
        # BaseOperator, and skip the constructor of the provider's operator.
        super().__init__(**kwargs)

    def execute(self, context: Context) -> Any:
        """Start the job, or find it, and wait for its end. If the task is deferrable, its trigger starts the job.

        Raises:
            AirflowFailException: a field is wrong, a file is missing, a budget does not allow the job, or the script
                crashed. A retry cannot help.
            AirflowException: SageMaker or S3 does not answer, or the job was stopped. A retry resumes the job, or
                collects the result of the job that completed.
        """
        return self._run_job(context, event=None, inputs=None)

    def execute_complete(
        self, context: Context, event: dict[str, Any] | None = None, inputs: dict[str, Any] | None = None
    ) -> Any:
        """Return the job's result, or wait for the next job; raise what `execute` raises."""
        return self._run_job(context, event, inputs)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume the task after its wait; if Airflow ended the wait after its timeout, stop the job and fail."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            self._make_job_task(context).stop()
            raise

    def on_kill(self) -> None:
        """Stop the running step and the job. Airflow calls this if the task is cleared, marked by hand or timed out."""
        if self._job_task:
            self._job_task.kill()

    @abstractmethod
    def build_trigger(self, wait: Any) -> BaseTrigger:
        """Return the trigger that starts the job or deployment, and waits for its end."""

    @abstractmethod
    def wait_in_worker(self, wait: Any) -> Mapping[str, Any]:
        """Start the job or deployment, wait for its end in this process, and return how the wait ended."""

    def build_step_variables(self) -> Mapping[str, str]:
        """Return more environment variables for the steps, which `env` may replace. By default there are none."""
        return {}

    def report_metrics(self, result: Mapping[str, Any]) -> None:
        """Send Airflow metrics about the result. By default there are none besides Airflow's own."""

    def _run_job(self, context: Context, event: Mapping[str, Any] | None, inputs: Mapping[str, Any] | None) -> Any:
        """Start or find jobs and wait for them, until there is a result.

        Args:
            context: context of the task.
            event: how the last wait of this try ended; None at the beginning of the try.
            inputs: inputs of the job that this try prepared before the wait; None at the beginning of the try.
        """
        job_task = self._make_job_task(context)
        while True:
            with raise_airflow_errors():
                operation = job_task.prepare_operation(inputs)
                wait_or_result = operation.resume(event)
            if isinstance(wait_or_result, dict):
                self.report_metrics(wait_or_result)
                return wait_or_result
            inputs = operation.inputs
            if self.deferrable:
                self._defer(wait_or_result, inputs)
            event = self.wait_in_worker(wait_or_result)

    def _defer(self, wait: Wait, inputs: Mapping[str, Any]) -> None:
        """Raise TaskDeferred: the task leaves the worker. The trigger starts the job, and reports the wait's end."""
        # The trigger ends the wait before this timeout, which is for a trigger that hangs.
        self.defer(
            timeout=timedelta(seconds=wait.max_duration_s + 4 * MARGIN_S),
            trigger=self.build_trigger(wait),
            method_name="execute_complete",
            kwargs={"inputs": inputs},
        )

    def _make_job_task(self, context: Context) -> AwsTask:
        """Create the job task from the rendered fields, and store it for `on_kill`."""
        task_instance = context["ti"]
        is_retry = task_instance.try_number > 1
        identity = {
            "dag_id": self.dag_id,
            "run_id": task_instance.run_id,
            "task_id": self.task_id,
            "map_index": -1 if task_instance.map_index is None else task_instance.map_index,
        }
        names = [field.name for field in dataclasses.fields(self.job_fields_class)]
        self._job_task = self.job_task_class(
            self.job_fields_class(**{name: getattr(self, name) for name in names}),
            identity,
            AwsConnection(self.aws_conn_id, self.region_name, self.verify, self.botocore_config),
            StepHook(self.log, self.python, {**find_user(context), **self.build_step_variables(), **(self.env or {})}),
            self.log,
            is_retry,
        )
        return self._job_task


def find_user(context: Context) -> dict[str, str]:
    """Return the environment variable that names the person who started the DAG run, for the reports of costs.

    The result is empty if a schedule started the run, or if LEEWAY_USER is set for all runs.
    """
    user = getattr(context.get("dag_run"), "triggering_user_name", "")
    return {USER_VARIABLE: user} if user and not os.environ.get(USER_VARIABLE) else {}


class SageMakerJobOperator(SageMakerOperator):
    """Prepare a SageMaker job, start it and wait for its end.

    Args:
        priority: `low`, `normal` or `high`; see `build_priority_fields`. The arguments
            priority_weight and pool have precedence.
    """

    def __init__(self, *, priority: Priority = "", **kwargs: Any) -> None:
        super().__init__(**{**build_priority_fields(priority), **kwargs})
        self.priority = priority

    def build_trigger(self, wait: JobWait) -> BaseTrigger:
        """Return the trigger that starts the job and waits for its end."""
        return JobTrigger(**dataclasses.asdict(wait))

    def wait_in_worker(self, wait: JobWait) -> Mapping[str, Any]:
        """Start the job, wait for its end in this process, and return how the wait ended."""
        return asyncio.run(start_and_wait_for_job(wait, self.log))
