"""Group the jobs of the ledger by task, describe them in a sentence, and estimate what a saving is worth in a year."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.costs.charges import format_usd

MAX_JOBS = 5
"""Number of a task's newest jobs that are examined."""
MAX_AGE_DAYS = 90
"""If the newest job of a task is more than this number of days old, there is no advice about the task."""
MIN_USD = 0.01
"""Smallest saving that is reported, USD."""
MIN_DAYS = 7
"""If the first job of a task is fewer days old than this, no saving of a year is estimated."""
YEAR_DAYS = 365

Row = Mapping[str, Any]


def group_by_task(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each task, oldest first."""
    rows_by_task: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = (row["model"] or "", row["dag_id"] or "", row["task_id"] or "", get_kind(row), row["region"] or "")
        rows_by_task.setdefault(key, []).append(row)
    return [rows_by_task[key] for key in sorted(rows_by_task)]


def describe_jobs(row: Row, count: int) -> str:
    """Describe the jobs as the subject of a sentence."""
    subject = f"model {row['model']}" if row["model"] else f"task {row['task_id']}" if row["task_id"] else "no model"
    jobs = f"The last {count} {get_kind(row)} jobs" if count > 1 else f"A {get_kind(row)} job"
    return f"{jobs} of {subject} on {row['instance_type']}"


def describe_days(rows: Sequence[Row]) -> str:
    """Describe the days on which the first and the last of some jobs were created."""
    return f"{rows[0]['created']:%Y-%m-%d} to {rows[-1]['created']:%Y-%m-%d}"


def get_kind(row: Row) -> str:
    """Return training, processing or transform, as the job's ARN says."""
    return str(row["arn"]).rpartition(":")[2].partition("-job/")[0]


def describe_yearly_usd(rows: Sequence[Row], usd_per_job: float, now: dt.datetime) -> str:
    """Describe the amount of one job as an amount in a year; empty if the task is too new to know how often it runs.

    The rate is computed from the jobs of the last `MAX_AGE_DAYS` days. If the task is newer, the time starts with its
    first job. This job is counted as half a job, because the interval before it is not known.

    Args:
        rows: all rows of the task, oldest first.
        usd_per_job: amount of one job, USD.
        now: the current moment.
    """
    first, start = rows[0]["created"], now - dt.timedelta(MAX_AGE_DAYS)
    days = (now - max(first, start)).total_seconds() / 86_400
    if days < MIN_DAYS:
        return ""
    jobs = sum(row["created"] > start for row in rows) - (0.5 if first > start else 0.0)
    jobs_per_day = jobs / days
    return f", or {format_usd(usd_per_job * jobs_per_day * YEAR_DAYS)} a year at {jobs_per_day:.2g} job(s) a day"
