"""Jobs without spot and without checkpoints: one task's processing or transform jobs over all its tries."""

from __future__ import annotations

import datetime as dt
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.attempts import Attempts, Job
from leeway.hooks.costs import Costs
from leeway.hooks.endings import FOR_GOOD, KILL_LATE_S
from leeway.hooks.jobs import Jobs
from leeway.hooks.machines import Machine
from leeway.hooks.running import arn_of, began_at, name_of, status_of
from leeway.hooks.step import Logger
from leeway.hooks.watch import Event, Watch
from pipelines.costs.job_records import ended_at, kind_of, machine_of, on_demand_record

WAIT_S = 3_600
"""Longest wait for a machine: SageMaker has none, drydock lets jobs wait for cores."""
TOLD = re.compile(r"\[exit (\d+)\] (.*)", re.DOTALL)
"""ExitMessage of `pipelines.container.processing`."""
TRY_AGAIN = 75
"""Exit code of a step that a retry can help; see `pipelines.errors`."""
KILLED = re.compile(r"exit ?code:? (137|143)\b", re.IGNORECASE)
"""How the FailureReason tells of a job that was killed: for its memory, say."""

LONGER = "Give a longer max_run_s, or a larger instance_type."


class OnDemand(Attempts):
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
        jobs: Jobs,
        costs: Costs,
        inputs: Mapping[str, Any],
        request: Mapping[str, Any],
        max_run_s: int,
        blank: Watch,
        log: Logger,
    ) -> None:
        super().__init__(jobs, costs, blank, log)
        self._inputs, self.request, self.max_run_s = inputs, request, max_run_s

    @property
    def inputs(self) -> dict[str, Any]:
        """What decides what comes out, for a later call in the same try."""
        return dict(self._inputs)

    def _error(self, job: Job, event: Event) -> AirflowException | None:
        return failure_of(job, event)

    def _record(self, job: Job) -> dict[str, Any]:
        return on_demand_record(job)

    def _where(self, job: Job) -> str:
        return str(machine_of(job)["InstanceType"])

    def _watch_there(self, attempts: Sequence[Job], attached_at: str) -> Watch:
        job = attempts[-1]
        return replace(self._watch(name_of(job), attached_at), was_stopping=status_of(job) == "Stopping")

    def _started(self, attempts: Sequence[Job]) -> Watch | None:
        self.costs.allow([self._machine()])
        name = self.jobs.name(len(attempts) + 1)
        return self._watch(name, None) if self.jobs.create(name, self.request) else None

    def _watch(self, name: str, attached_at: str | None) -> Watch:
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


def seconds(job: Mapping[str, Any]) -> float:
    """How long an ended job had its machine."""
    began = began_at(job)
    return float((ended_at(job) - began).total_seconds()) if began else 0.0


def failure_of(job: Mapping[str, Any], event: Event) -> AirflowException | None:
    """What is to be raised for a job that did not complete; None where the same try goes on with the next one."""
    name = f"{kind_of(job).lower()} job {name_of(job)}"
    if event["cause"] == "overrun":
        return AirflowFailException(f"{name} was stopped: {event['message']}. {LONGER}")
    if event["cause"] == "deadline":
        return AirflowException(f"{name} was stopped: {event['message']}.")
    if event["cause"] != "ended":
        return AirflowException(f"{name} cannot be watched: {event['message']}")
    return _failed(job, name) if status_of(job) == "Failed" else _stopped(job, name, event)


def _failed(job: Mapping[str, Any], name: str) -> AirflowException:
    if told := TOLD.match(str(job.get("ExitMessage", ""))):
        text = f"{name} failed: {told[2]}"
        return AirflowException(text) if int(told[1]) == TRY_AGAIN else AirflowFailException(text)
    reason = " ".join(str(job.get("FailureReason", "no reason is given")).split())
    for_good = reason.startswith(FOR_GOOD) and not KILLED.search(reason)
    return (AirflowFailException if for_good else AirflowException)(f"{name} failed: {reason}")


def _stopped(job: Mapping[str, Any], name: str, event: Event) -> AirflowException | None:
    most_s = job.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 0)
    if most_s and seconds(job) >= most_s:
        return AirflowFailException(f"{name} was stopped after max_run_s ({most_s} s), before it was done. {LONGER}")
    if event.get("was_stopping") or _stopped_by_the_clear(job, event["attached_at"]):
        return None
    return AirflowException(f"{name} was stopped by somebody; a retry starts it again.")


def _stopped_by_the_clear(job: Mapping[str, Any], began: str | None) -> bool:
    """Whether the clear did that began this try. These jobs tell when they ended, and not when they were told to."""
    return began is not None and ended_at(job) < dt.datetime.fromisoformat(began) + dt.timedelta(seconds=KILL_LATE_S)
