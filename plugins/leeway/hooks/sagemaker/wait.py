"""What a wait for a job is told, and how it ends.

What is decided here is a function of SageMaker's description of the job, so that a watch that was killed and began anew
decides the same.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook

from leeway.hooks.sagemaker.description import began_at, running_cost_usd
from leeway.hooks.sagemaker.named_jobs import Kind

MARGIN_S = 600
"""Time that a job may take, after its longest run, to upload what it made and to end."""

Cause = Literal["ended", "budget", "overrun", "deadline", "silent", "error"]


class WaitEvent(TypedDict):
    """Why a watch is over."""

    cause: Cause
    """ended: by itself or by somebody; budget, overrun, deadline: stopped here; silent, error: not seen any more."""
    job_name: str
    message: str
    attached_at: str | None
    was_stopping: NotRequired[bool]
    """As in `JobWait`."""


@dataclass(frozen=True)
class JobWait:
    """What to wait for, and when to stop it. All of it is JSON.

    Args:
        job_name: the job.
        check_interval_s: seconds between two looks.
        longest_s: longest time from the job's creation to the end of its run, seconds.
        max_run_s: longest run, seconds, where the service itself bounds none; None where it does.
        kind: of the job.
        attached_at: when the watch of a job began that this try did not start, ISO 8601; None of one that it did.
        was_stopping: whether the job had been told to stop before that.
        price_usd_h: of an instance of it, on demand; None where no budget is to be kept.
        budget_usd: what all attempts together may cost.
        spent_usd: what the attempts before it cost.
        aws_conn_id: Airflow's connection.
        region_name: of it, where the connection does not say.
        verify: of TLS certificates, as boto3 takes it.
        botocore_config: of the clients.
    """

    job_name: str
    check_interval_s: int
    longest_s: int
    max_run_s: int | None = None
    kind: Kind = "training"
    attached_at: str | None = None
    was_stopping: bool = False
    price_usd_h: float | None = None
    budget_usd: float | None = None
    spent_usd: float = 0.0
    aws_conn_id: str | None = "aws_default"
    region_name: str | None = None
    verify: bool | str | None = None
    botocore_config: dict[str, Any] | None = None

    @property
    def deadline_s(self) -> int:
        """Age at which the job is stopped, seconds: the service should have done so before."""
        return self.longest_s + MARGIN_S

    @property
    def gives_up_s(self) -> int:
        """Age at which the wait is over, even if the job is not, seconds."""
        return self.longest_s + 2 * MARGIN_S

    def age_s(self, job: Mapping[str, Any], now: dt.datetime) -> float:
        """Seconds since the job was created."""
        return float((now - job["CreationTime"]).total_seconds())

    def event(self, cause: Cause, message: str = "") -> WaitEvent:
        """The end of this watch."""
        told: WaitEvent = {
            "cause": cause,
            "job_name": self.job_name,
            "message": message,
            "attached_at": self.attached_at,
        }
        return {**told, "was_stopping": self.was_stopping}

    def cost_usd(self, job: Mapping[str, Any], now: dt.datetime) -> float:
        """What all attempts cost until now, at most."""
        return self.spent_usd + running_cost_usd(job, self.price_usd_h or 0.0, now)

    def excess(self, job: Mapping[str, Any], now: dt.datetime) -> tuple[Cause, str] | None:
        """Why the job must not run at this moment, if it must not."""
        if self.budget_usd is not None and (cost_usd := self.cost_usd(job, now)) > self.budget_usd:
            return "budget", f"it cost {cost_usd:.4f} USD, and the run's budget_usd is {self.budget_usd:.4f}"
        if self.max_run_s and (began := began_at(job)) and (now - began).total_seconds() > self.max_run_s:
            return "overrun", f"it ran longer than max_run_s ({self.max_run_s} s)"
        if self.age_s(job, now) > self.deadline_s:
            return "deadline", f"it did not end within {self.deadline_s} s, and should have within {self.longest_s} s"
        return None

    @asynccontextmanager
    async def clients(self) -> AsyncIterator[tuple[Any, Any]]:
        """Clients of SageMaker and of CloudWatch Logs."""
        place = {"aws_conn_id": self.aws_conn_id, "region_name": self.region_name, "verify": self.verify}
        sagemaker, logs = (kind(**place, config=self.botocore_config) for kind in (SageMakerHook, AwsLogsHook))
        async with await sagemaker.get_async_conn() as jobs, await logs.get_async_conn() as lines:
            yield jobs, lines
