"""Jobs without spot and without checkpoints: one task's processing or transform jobs over all its tries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.sdk.exceptions import AirflowException

from leeway.hooks.sagemaker.attempts import Attempts, Job
from leeway.hooks.sagemaker.costs import Costs
from leeway.hooks.sagemaker.description import arn_of, name_of, status_of
from leeway.hooks.sagemaker.failures import failure_of, seconds
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger
from pipelines.costs.job_records import machine_of, on_demand_record

WAIT_S = 3_600
"""Longest wait for a machine: SageMaker has none, drydock lets jobs wait for cores."""


class SimpleAttempts(Attempts):
    """Goes on with a task's jobs, from wherever they are.

    Args:
        jobs: the task's jobs.
        costs: the budgets and the ledger.
        inputs: what decides what comes out.
        request: to SageMaker, without a job's name.
        max_run_s: longest time of a job, seconds.
        blank: how a job of the task is watched, without its name and bounds.
        log: where decisions are told.
    """

    def __init__(
        self,
        jobs: NamedJobs,
        costs: Costs,
        inputs: Mapping[str, Any],
        request: Mapping[str, Any],
        max_run_s: int,
        blank: JobWait,
        log: Logger,
    ) -> None:
        super().__init__(jobs, costs, blank, log)
        self._inputs, self.request, self.max_run_s = inputs, request, max_run_s

    @property
    def inputs(self) -> dict[str, Any]:
        """What decides what comes out, for a later call in the same try."""
        return dict(self._inputs)

    def _error(self, job: Job, event: WaitEvent) -> AirflowException | None:
        return failure_of(job, event)

    def _record(self, job: Job) -> dict[str, Any]:
        return on_demand_record(job)

    def _where(self, job: Job) -> str:
        return str(machine_of(job)["InstanceType"])

    def _watch_there(self, attempts: Sequence[Job], attached_at: str) -> JobWait:
        job = attempts[-1]
        return replace(self._watch(name_of(job), attached_at), was_stopping=status_of(job) == "Stopping")

    def _started(self, attempts: Sequence[Job]) -> JobWait | None:
        self.costs.allow([self._machine()])
        name = self.jobs.name(len(attempts) + 1)
        return self._watch(name, None) if self.jobs.create(name, self.request) else None

    def _watch(self, name: str, attached_at: str | None) -> JobWait:
        return replace(self.blank, job_name=name, longest_s=WAIT_S + self.max_run_s, attached_at=attached_at)

    def _machine(self) -> Machine:
        """What the budget is asked for: the longest run of the request, whose machines are never spot."""
        machine = machine_of(self.request)
        return Machine(
            instance_type=machine["InstanceType"],
            instance_count=machine["InstanceCount"],
            volume_size_gb=machine.get("VolumeSizeInGB", 0),
            spot=False,
            max_run_s=self.max_run_s,
            max_wait_s=0,
        )

    def _result(self, job: Job, attempts: Sequence[Job]) -> dict[str, Any]:
        cost, kind = self._charged(attempts), self.jobs.kind
        return {
            **self._collected(job),
            f"{kind}_job": name_of(job),
            f"{kind}_job_arn": arn_of(job),
            "status": status_of(job),
            "attempts": len(attempts),
            f"{kind}_s": round(seconds(job), 1),
            "cost_usd": cost["cost_usd"],
        }

    @abstractmethod
    def _collected(self, job: Job) -> dict[str, Any]:
        """What a job that completed has made, brought to where the task wants it."""
