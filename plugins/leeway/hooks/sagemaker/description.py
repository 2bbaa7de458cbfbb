"""Reading a described job: whether it lives, why it ended, how long it ran."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pipelines.costs.job_records import ended_at, kind_of

RUNNING = ("InProgress", "Stopping")
"""States of a job that has not ended."""
PAID = ("Downloading", "DownloadingTrainingImage", "Training", "Uploading", "Stopping")
"""Secondary states in which machines are there and cost; in the others the job waits for them."""


def name_of(job: Mapping[str, Any]) -> str:
    """Its name, of any kind."""
    return str(job[f"{kind_of(job)}JobName"])


def status_of(job: Mapping[str, Any]) -> str:
    """Its state, of any kind."""
    return str(job[f"{kind_of(job)}JobStatus"])


def arn_of(job: Mapping[str, Any]) -> str:
    """Its ARN, of any kind."""
    return str(job[f"{kind_of(job)}JobArn"])


def began_at(job: Mapping[str, Any]) -> dt.datetime | None:
    """When it got its machines; None where it never did."""
    began: dt.datetime | None = job.get(f"{kind_of(job)}StartTime")
    return began


def is_live(job: Mapping[str, Any]) -> bool:
    """Whether it has not ended."""
    return status_of(job) in RUNNING


def longest_s(job: Mapping[str, Any], max_wait_s: int) -> int:
    """Longest time from a job's creation to the end of its run, seconds; the service bounds the wait of spot alone."""
    bounds = job["StoppingCondition"]
    return int(bounds.get("MaxWaitTimeInSeconds") or max_wait_s + bounds["MaxRuntimeInSeconds"])


def running_s(job: Mapping[str, Any], now: dt.datetime) -> float:
    """Seconds with machines, waits for capacity not counted."""
    spans = [one for one in job.get("SecondaryStatusTransitions", []) if one["Status"] in PAID]
    return float(sum(((one.get("EndTime") or now) - one["StartTime"]).total_seconds() for one in spans))


def running_cost_usd(job: Mapping[str, Any], price_usd_h: float, now: dt.datetime) -> float:
    """What a job costs until now at the price on demand: for spot, the most that it can be."""
    return running_s(job, now) / 3_600 * _count(job) * price_usd_h


def billed_cost_usd(job: Mapping[str, Any], price_usd_h: float) -> float:
    """What an ended job cost: BillableTimeInSeconds is per instance."""
    return float(job.get("BillableTimeInSeconds", 0)) / 3_600 * _count(job) * price_usd_h


def stopped_at(job: Mapping[str, Any]) -> dt.datetime:
    """When it was told to stop; of one that stopped at once, when it ended."""
    told: list[dt.datetime] = [
        one["StartTime"] for one in job.get("SecondaryStatusTransitions", []) if one["Status"] == "Stopping"
    ]
    return min([*told, ended_at(job)])


def _count(job: Mapping[str, Any]) -> int:
    return int(job["ResourceConfig"].get("InstanceCount", 1))
