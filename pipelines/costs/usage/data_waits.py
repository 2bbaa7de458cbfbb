"""Say which trainings wait for their data, and what to do about it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.costs.charges import format_usd
from pipelines.costs.usage.columns import DATA_WAIT_COLUMN
from pipelines.costs.usage.report import compute_mean
from pipelines.costs.usage.task_jobs import (
    MAX_AGE_DAYS,
    MAX_JOBS,
    MIN_USD,
    describe_days,
    describe_jobs,
    describe_yearly_usd,
    group_by_task,
)
from pipelines.instances.catalogue import find_size

MIN_SHARE = 0.2
"""There is advice about trainings that wait for data for at least this share of their time."""
ADVICE_WITHOUT_ACCELERATOR = (
    "if the script reads all rows before its first round, as Leeway's own does, use a shorter window, fewer features "
    "or more vCPUs; if it has a loader, give the loader more workers"
)
"""What to do on an instance type without GPUs or other accelerators."""
BUSY_PERCENT = 80.0
"""Mean utilization of the vCPUs, percent; from this value on, more workers of the loader would not help."""

Row = Mapping[str, Any]


def list_data_wait_advice(rows: Sequence[Row], now: dt.datetime) -> list[str]:
    """List sentences that each name the trainings of a task that wait for their data.

    Of the newest completed jobs of a task, those are examined that ran on the instance type of the newest one and
    reported their wait for data. There is no sentence if the newest completed job is older than `MAX_AGE_DAYS` days,
    did not report its wait, or waited for less than `MIN_SHARE` (the cause is gone then). There is also none if the
    examined jobs waited for less than `MIN_SHARE` on average, or if their waits cost less than `MIN_USD`.

    Args:
        rows: rows of the ledger of jobs, oldest first.
        now: the current moment.
    """
    return [sentence for task_rows in group_by_task(rows) for sentence in _advise(task_rows, now)]


def _advise(rows: Sequence[Row], now: dt.datetime) -> Iterator[str]:
    completed_rows = [row for row in rows if row["status"] == "Completed"]
    if not completed_rows:
        return
    newest_row = completed_rows[-1]
    last_rows = [row for row in completed_rows[-MAX_JOBS:] if row["instance_type"] == newest_row["instance_type"]]
    known_rows = [row for row in last_rows if row[DATA_WAIT_COLUMN] is not None]
    share = compute_mean(known_rows, DATA_WAIT_COLUMN)
    waited_usd = sum(row[DATA_WAIT_COLUMN] * row["cost_usd"] for row in known_rows)
    is_known = newest_row[DATA_WAIT_COLUMN] is not None and newest_row["created"] >= now - dt.timedelta(MAX_AGE_DAYS)
    if not is_known or share is None or min(share, newest_row[DATA_WAIT_COLUMN]) < MIN_SHARE or waited_usd < MIN_USD:
        return
    yield (
        f"{describe_jobs(newest_row, len(known_rows))} waited for data in {share:.0%} of the time "
        f"({describe_days(known_rows)}), which cost about "
        f"{format_usd(waited_usd)}{describe_yearly_usd(rows, waited_usd / len(known_rows), now)}: "
        f"{_advise_on_cause(known_rows)}."
    )


def _advise_on_cause(rows: Sequence[Row]) -> str:
    """Return what to do, which depends on the utilization of the vCPUs."""
    size, mean = find_size(rows[-1]["instance_type"] or ""), compute_mean(rows, "cpu_mean")
    if size is not None and not size.is_accelerated:
        return ADVICE_WITHOUT_ACCELERATOR
    if size is None or mean is None:
        return "give the loader more workers, or take an instance type with more vCPUs for each GPU"
    percent = mean / size.vcpus
    if percent < BUSY_PERCENT:
        return f"the instance's {size.vcpus} vCPUs were {percent:.0f}% busy, so give the loader more workers"
    return (
        f"the instance's {size.vcpus} vCPUs were {percent:.0f}% busy, so take an instance type with more vCPUs for "
        "each GPU, or do the work on the samples once, when the shards are written"
    )
