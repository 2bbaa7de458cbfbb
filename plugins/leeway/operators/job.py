"""SageMakerJobOperator, the base class of the operators that run SageMaker jobs."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import TaskDeferralTimeout

from leeway.hooks.sagemaker.aws_errors import raise_airflow_errors
from leeway.hooks.sagemaker.connection import AwsConnection
from leeway.hooks.sagemaker.task import JobTask
from leeway.hooks.sagemaker.wait import MARGIN_S, JobWait, WaitEvent
from leeway.hooks.sagemaker.wait_for_job import wait_for_job
from leeway.hooks.step.hook import StepHook
from leeway.operators.output import ReturnsResult
from leeway.triggers.job import JobTrigger

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class SageMakerJobOperator(ReturnsResult, BaseOperator):
    """Prepare and start one SageMaker job, and let its trigger wait for it.

    A subclass inherits from this class first, and then from an operator of the Amazon provider, whose constructor is
    used. It names its `JobTask` and the dataclass of the fields that go into it.
    """

    job_task: ClassVar[type[JobTask]]
    job_fields: ClassVar[type[DataclassInstance]]
    aws_conn_id: str | None
    region_name: str | None
    verify: bool | str | None
    botocore_config: dict[str, Any] | None
    deferrable: bool
    python: str
    env: Mapping[str, str] | None
    _task: JobTask | None = None

    def __init__(self, **kwargs: Any) -> None:
        # Airflow wraps the constructor that each class has. Without this one, BaseOperator's would be called directly,
        # and not the provider's.
        super().__init__(**kwargs)

    def execute(self, context: Context) -> Any:
        """Start the job, or find it, and wait for it.

        Raises:
            AirflowFailException: a field is wrong, a file is missing, a budget does not allow the job, or the script
                crashed. A retry cannot help.
            AirflowException: SageMaker or S3 does not answer, or the job was stopped. A retry resumes it, or collects
                the result of the job that completed.
        """
        return self._run_job(context, None, None)

    def execute_complete(
        self, context: Context, event: dict[str, Any] | None = None, inputs: dict[str, Any] | None = None
    ) -> Any:
        """Return the job's result, or wait for the next job. Raises as `execute` does."""
        return self._run_job(context, WaitEvent(**event) if event else None, inputs)  # type: ignore[typeddict-item]

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume the task after its wait; stop the job first if Airflow ended the wait because it took too long."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            self._make_task(context).stop()
            raise

    def on_kill(self) -> None:
        """Stop the running step and the job: the task was cleared, marked or timed out."""
        if self._task:
            self._task.kill()

    def report_metrics(self, result: Mapping[str, Any]) -> None:
        """Send Airflow metrics about the result. By default there are none besides Airflow's own."""

    def _run_job(self, context: Context, event: WaitEvent | None, inputs: Mapping[str, Any] | None) -> Any:
        task = self._make_task(context)
        while True:
            with raise_airflow_errors():
                work = task.prepare_work(inputs)
                outcome = work.resume(event)
            if isinstance(outcome, dict):
                self.report_metrics(outcome)
                return outcome
            inputs = work.inputs
            if self.deferrable:
                self._defer(outcome, inputs)
            event = asyncio.run(wait_for_job(outcome, self.log))

    def _defer(self, wait: JobWait, inputs: Mapping[str, Any]) -> None:
        """Leave the worker until the trigger reports the end of the wait."""
        self.defer(
            timeout=timedelta(seconds=wait.longest_s + 4 * MARGIN_S),
            trigger=JobTrigger(**dataclasses.asdict(wait)),
            method_name="execute_complete",
            kwargs={"inputs": inputs},
        )

    def _make_task(self, context: Context) -> JobTask:
        """Create the job task from the rendered fields, and keep it for `on_kill`."""
        instance = context["ti"]
        identity = {
            "dag_id": self.dag_id,
            "run_id": instance.run_id,
            "task_id": self.task_id,
            "map_index": -1 if instance.map_index is None else instance.map_index,
        }
        self._task = self.job_task(
            self.job_fields(**{field.name: getattr(self, field.name) for field in dataclasses.fields(self.job_fields)}),
            identity,
            AwsConnection(self.aws_conn_id, self.region_name, self.verify, self.botocore_config),
            StepHook(self.log, self.python, self.env),
            self.log,
            instance.try_number > 1,
        )
        return self._task
