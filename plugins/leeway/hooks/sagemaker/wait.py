"""Describe a wait for a job: the request that starts it, its limits, and how the wait ended.

Whether a limit is exceeded depends only on the wait's fields, on SageMaker's description of the job and on the clock.
A wait that was killed and started again therefore takes the same decisions.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook

from leeway.hooks.sagemaker.connection import AwsWait
from leeway.hooks.sagemaker.description import compute_running_cost_usd, get_start_time
from leeway.hooks.sagemaker.named_jobs import Kind

MARGIN_S = 600
"""Seconds that a job gets, after its maximum duration (`max_duration_s`), to upload its output and to end."""

Cause = Literal["ended", "budget", "overrun", "deadline", "queue", "no_answer", "error", "refused"]
"""Why a wait ended; see `WaitEvent.cause`."""


class WaitEvent(TypedDict):
    """The end of a wait for a job: its cause, the job and a message."""

    cause: Cause
    """ended: the job ended, and the wait did not stop it. budget, overrun, deadline: the wait stopped the job, because
    the job exceeded the limit of its cost, run time or age. queue: the wait terminated the job, because the job was in
    its queue for too long. no_answer, error: SageMaker did not answer, or answered with an error, so the job's state is
    not known. refused: the request is wrong, so the job was not started."""
    job_name: str
    """Name of the job."""
    message: str
    """A sentence about the cause; empty if the job ended."""
    attached_at: str | None
    """As in `JobWait`."""
    was_stopping: NotRequired[bool]
    """As in `JobWait`."""


@dataclass(frozen=True)
class JobWait(AwsWait):
    """A job to start and to wait for, and the limits at which it is stopped. All fields can be written as JSON.

    Args:
        job_name: name of the job.
        check_interval_s: seconds between two requests for the job's state.
        max_duration_s: maximum time from the job's creation to the end of its run, seconds.
        max_run_s: maximum run time, seconds; None if SageMaker itself limits the run time.
        kind: kind of the job.
        request: the request that starts the job, without the job's name; None if the job exists already.
        attached_at: when this try found a job that it had not started, ISO 8601; None if it started the job.
        was_stopping: whether the job's stop had been requested before `attached_at`.
        price_usd_h: on-demand price of one instance, US dollars an hour; None if there is no budget.
        budget_usd: highest cost of all attempts together, US dollars; None: no limit.
        spent_usd: cost of the earlier attempts, US dollars.
    """

    job_name: str
    check_interval_s: int
    max_duration_s: int
    max_run_s: int | None = None
    kind: Kind = "training"
    request: dict[str, Any] | None = None
    attached_at: str | None = None
    was_stopping: bool = False
    price_usd_h: float | None = None
    budget_usd: float | None = None
    spent_usd: float = 0.0

    @property
    def deadline_s(self) -> int:
        """Age of the job, in seconds, at which the wait stops the job. Normally SageMaker stops the job earlier."""
        return self.max_duration_s + MARGIN_S

    @property
    def max_age_s(self) -> int:
        """Age of the job, in seconds, at which the wait ends although the job still runs."""
        return self.max_duration_s + 2 * MARGIN_S

    def compute_age_s(self, job: Mapping[str, Any], now: dt.datetime) -> float:
        """Return the seconds since the job was created."""
        return float((now - job["CreationTime"]).total_seconds())

    def build_event(self, cause: Cause, message: str = "") -> WaitEvent:
        """Return the event that ends this wait."""
        event: WaitEvent = {
            "cause": cause,
            "job_name": self.job_name,
            "message": message,
            "attached_at": self.attached_at,
        }
        return {**event, "was_stopping": self.was_stopping}

    def compute_cost_usd(self, job: Mapping[str, Any], now: dt.datetime) -> float:
        """Return an upper bound of the cost of all attempts until now, US dollars."""
        return self.spent_usd + compute_running_cost_usd(job, self.price_usd_h or 0.0, now)

    def find_exceeded_limit(self, job: Mapping[str, Any], now: dt.datetime) -> tuple[Cause, str] | None:
        """Return the cause and a message if the job exceeds a limit now; None otherwise."""
        if self.budget_usd is not None and (cost_usd := self.compute_cost_usd(job, now)) > self.budget_usd:
            return "budget", f"it cost {cost_usd:.4f} USD, and the run's budget_usd is {self.budget_usd:.4f}"
        if self.max_run_s and (start := get_start_time(job)) and (now - start).total_seconds() > self.max_run_s:
            return "overrun", f"it ran longer than max_run_s ({self.max_run_s} s)"
        if self.compute_age_s(job, now) > self.deadline_s:
            return (
                "deadline",
                f"it did not end within {self.deadline_s} s, although its limit is {self.max_duration_s} s",
            )
        return None

    @asynccontextmanager
    async def open_clients(self) -> AsyncIterator[tuple[Any, Any]]:
        """Open clients of SageMaker and of CloudWatch Logs."""
        sagemaker_hook, logs_hook = (self.connection.create_hook(hook) for hook in (SageMakerHook, AwsLogsHook))
        async with await sagemaker_hook.get_async_conn() as sagemaker, await logs_hook.get_async_conn() as logs:
            yield sagemaker, logs
