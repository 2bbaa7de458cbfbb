"""What the operators over SageMaker jobs share: they prepare and start one, their trigger waits."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import TaskDeferralTimeout

from leeway.hooks.sagemaker.aws_errors import told_in_a_line
from leeway.hooks.sagemaker.connection import AwsConnection
from leeway.hooks.sagemaker.task import JobTask
from leeway.hooks.sagemaker.wait import MARGIN_S, WaitEvent
from leeway.hooks.sagemaker.wait_for_job import watched
from leeway.hooks.step.hook import StepHook
from leeway.triggers.job import JobTrigger


class SageMakerJobMixin:
    """Goes before one of the provider's operators; a subclass names its task and the fields that go into it."""

    task_of: type[JobTask]
    fields_of: type
    _task: JobTask | None = None

    def execute(self: Any, context: Context) -> Any:
        """Starts the job, or finds it, and waits for it.

        Raises:
            AirflowFailException: a field is wrong, a file is not there, a budget does not allow it, or the script
                crashed. A retry cannot help.
            AirflowException: SageMaker or S3 does not answer, or the job was stopped. A retry goes on, or collects
                what completed.
        """
        return self._go_on(context, None, None)

    def execute_complete(
        self: Any, context: Context, event: dict[str, Any] | None = None, inputs: dict[str, Any] | None = None
    ) -> Any:
        """The job's result, or the wait for the next one. Raises as `execute` does."""
        return self._go_on(context, WaitEvent(**event) if event else None, inputs)  # type: ignore[typeddict-item]

    def resume_execution(self: Any, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """As Airflow resumes any task; a job whose wait Airflow broke off for its time is stopped first."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)  # type: ignore[misc]
        except TaskDeferralTimeout:
            self._of(context).stop()
            raise

    def on_kill(self: Any) -> None:
        """No step is left running here, and the job was told to stop: the task was cleared, marked or timed out."""
        if self._task:
            self._task.kill()

    def _go_on(self: Any, context: Context, event: WaitEvent | None, inputs: Mapping[str, Any] | None) -> Any:
        task = self._of(context)
        while True:
            with told_in_a_line():
                work = task.work(inputs)
                found = work.go_on(event)
            if isinstance(found, dict):
                self.measured(found)
                return found
            inputs = work.inputs
            if self.deferrable:
                self.defer(
                    timeout=timedelta(seconds=found.longest_s + 4 * MARGIN_S),
                    trigger=JobTrigger(**dataclasses.asdict(found)),
                    method_name="execute_complete",
                    kwargs={"inputs": inputs},
                )
            event = asyncio.run(watched(found, self.log))

    def measured(self, result: Mapping[str, Any]) -> None:
        """Airflow's metrics tell of the result; of most kinds of jobs nothing beyond what they tell of any task."""

    def _of(self: Any, context: Context) -> JobTask:
        """The task as it is rendered, and as `on_kill` finds it."""
        instance = context["ti"]
        task: JobTask = self.task_of(
            self.fields_of(**{one.name: getattr(self, one.name) for one in dataclasses.fields(self.fields_of)}),
            {
                "dag_id": self.dag_id,
                "run_id": instance.run_id,
                "task_id": self.task_id,
                "map_index": -1 if instance.map_index is None else instance.map_index,
            },
            AwsConnection(self.aws_conn_id, self.region_name, self.verify, self.botocore_config),
            StepHook(self.log, self.python, self.env),
            self.log,
            instance.try_number > 1,
        )
        self._task = task
        return task
