"""Start processing or transform jobs and collect their output. These jobs run on demand, without checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.sdk.exceptions import AirflowException

from leeway.hooks.sagemaker.attempts import Attempts, Job
from leeway.hooks.sagemaker.costs import Costs
from leeway.hooks.sagemaker.description import get_job_arn, get_job_name, get_job_status
from leeway.hooks.sagemaker.failures import compute_machine_s, make_job_error
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger
from pipelines.costs.job_records import get_instance_fields, to_on_demand_record

MAX_WAIT_S = 3_600
"""Longest wait for a machine, seconds. SageMaker starts these jobs at once; in drydock they may wait for cores."""


class SimpleAttempts(Attempts):
    """Start, find or collect a job that cannot resume: each attempt does all of the work.

    Args:
        jobs: finds and stops the task's jobs.
        costs: checks the budgets, and writes to the ledger.
        inputs: the inputs that determine the job's output.
        request: request to SageMaker, without a job's name.
        max_run_s: longest run of a job, seconds.
        wait_template: a wait for a job of the task, without the job's name and limits.
        log: log of the task.
    """

    def __init__(
        self,
        jobs: NamedJobs,
        costs: Costs,
        inputs: Mapping[str, Any],
        request: Mapping[str, Any],
        max_run_s: int,
        wait_template: JobWait,
        log: Logger,
    ) -> None:
        super().__init__(jobs, costs, wait_template, log)
        self._inputs, self.request, self.max_run_s = inputs, request, max_run_s

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs that determine the job's output, for a later call of `prepare_operation` in the same try."""
        return dict(self._inputs)

    def _make_error(self, job: Job, event: WaitEvent) -> AirflowException | None:
        return make_job_error(job, event)

    def _build_cost_record(self, job: Job) -> dict[str, Any]:
        return to_on_demand_record(job)

    def _get_machine_label(self, job: Job) -> str:
        return str(get_instance_fields(job)["InstanceType"])

    def _build_wait_for_existing(self, attempts: Sequence[Job], attached_at: str) -> JobWait:
        job = attempts[-1]
        return replace(self._build_wait(get_job_name(job), attached_at), was_stopping=get_job_status(job) == "Stopping")

    def _prepare_next(self, attempts: Sequence[Job]) -> JobWait:
        self.costs.require_budget([self._build_machine()])
        wait = self._build_wait(self.jobs.build_next_name(attempts), attached_at=None)
        return replace(wait, request=dict(self.request))

    def _build_wait(self, name: str, attached_at: str | None) -> JobWait:
        max_duration_s = MAX_WAIT_S + self.max_run_s
        return replace(self.wait_template, job_name=name, max_duration_s=max_duration_s, attached_at=attached_at)

    def _build_machine(self) -> Machine:
        """Return the machine of the request, on demand and for the longest run: the worst case for the budget."""
        instances = get_instance_fields(self.request)
        return Machine(
            instance_type=instances["InstanceType"],
            instance_count=instances["InstanceCount"],
            volume_size_gb=instances.get("VolumeSizeInGB", 0),
            is_spot=False,
            max_run_s=self.max_run_s,
            max_wait_s=0,  # SageMaker limits the wait of spot jobs only
        )

    def _build_result(self, job: Job, attempts: Sequence[Job]) -> dict[str, Any]:
        charge, kind = self._charge(attempts), self.jobs.kind
        return {
            **self._collect(job),
            f"{kind}_job": get_job_name(job),
            f"{kind}_job_arn": get_job_arn(job),
            "status": get_job_status(job),
            "attempts": len(attempts),
            f"{kind}_s": round(compute_machine_s(job), 1),
            "cost_usd": charge["cost_usd"],
        }

    @abstractmethod
    def _collect(self, job: Job) -> dict[str, Any]:
        """Copy the output of a completed job to where the task needs it; return its fields of the task's result."""
