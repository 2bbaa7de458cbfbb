"""Say for which jobs a smaller instance type would be enough, and which ones need a larger one, by what they used."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.costs.charges import format_usd
from pipelines.costs.usage.other_types import PricedType, list_other_types
from pipelines.costs.usage.task_jobs import (
    MAX_AGE_DAYS,
    MAX_JOBS,
    MIN_USD,
    describe_days,
    describe_jobs,
    describe_yearly_usd,
    group_by_task,
)
from pipelines.instances.catalogue import Size, find_size

MAX_USED_PERCENT = 80.0
"""Largest use of CPU and memory, percent, that the peaks of the jobs may have on a smaller type."""
FULL_PERCENT = 90.0
"""Peak of memory, percent, above which a larger type is named."""
LARGER_FACTOR = 1.5
"""Smallest memory of a larger type, relative to the present one."""

Row = Mapping[str, Any]


def list_size_advice(rows: Sequence[Row], now: dt.datetime) -> list[str]:
    """List sentences that each name a smaller or a larger instance type for the jobs of a task.

    The jobs of a task count together as long as their instance type stays the same. A job whose use is not known is
    no evidence: then nothing is said.

    Args:
        rows: rows of the ledger of jobs, oldest first.
        now: the current moment.
    """
    return [sentence for task_rows in group_by_task(rows) for sentence in _advise(task_rows, now)]


def _advise(rows: Sequence[Row], now: dt.datetime) -> Iterator[str]:
    newest_row = rows[-1]
    size = find_size(newest_row["instance_type"] or "")
    if size is None or newest_row["created"] < now - dt.timedelta(MAX_AGE_DAYS):
        return
    last_rows = [row for row in rows[-MAX_JOBS:] if row["instance_type"] == newest_row["instance_type"]]
    full_rows = [row for row in last_rows if (row["memory_peak"] or 0.0) > FULL_PERCENT]
    if full_rows:
        yield _advise_larger(full_rows[-1], size)
    elif len(last_rows) == MAX_JOBS and not size.is_accelerated:
        yield from _advise_smaller(rows, size, now)


def _advise_larger(row: Row, size: Size) -> str:
    """Name the cheapest type with clearly more memory and as many vCPUs; with accelerators, of the same family."""
    larger_types = [
        other
        for other in list_other_types(row)
        if other.size.memory_gib >= LARGER_FACTOR * size.memory_gib
        and other.size.vcpus >= size.vcpus
        and (other.is_same_family or not size.is_accelerated)
    ]
    best_type = min(larger_types, key=PricedType.get_rank, default=None)
    ending = f"{best_type.describe()} has more" if best_type else "take an instance type with more"
    return (
        f"{describe_jobs(row, 1)} used {row['memory_peak']:.0f}% of its memory ({row['name']}, "
        f"{row['created']:%Y-%m-%d}); a job that needs more than it has is killed: {ending}."
    )


def _advise_smaller(task_rows: Sequence[Row], size: Size, now: dt.datetime) -> Iterator[str]:
    """Yield a sentence if the last jobs have succeeded, their use is known, and their peaks fit on a cheaper type."""
    rows, newest_row = task_rows[-MAX_JOBS:], task_rows[-1]
    peaks = [(row["cpu_peak"], row["memory_peak"]) for row in rows]
    if any(row["status"] != "Completed" for row in rows) or any(None in peak for peak in peaks):
        return
    cpu, memory = (max(values) for values in zip(*peaks, strict=True))
    fitting_types = [
        other
        for other in list_other_types(newest_row)
        if other.price_share < 1
        and cpu <= MAX_USED_PERCENT * other.size.vcpus
        and memory * size.memory_gib / other.size.memory_gib <= MAX_USED_PERCENT
    ]
    best_type = min(fitting_types, key=PricedType.get_rank, default=None)
    if best_type is None:
        return
    saved_usd = sum(row["cost_usd"] for row in rows) * (1 - best_type.price_share)
    if saved_usd >= MIN_USD:
        yield (
            f"{describe_jobs(newest_row, MAX_JOBS)} used at most {cpu / size.vcpus:.0f}% of its {size.vcpus} vCPUs and "
            f"{memory:.0f}% of its memory ({describe_days(rows)}): {best_type.describe()} would be enough, and would "
            f"have cost about {format_usd(saved_usd)} less{describe_yearly_usd(task_rows, saved_usd / MAX_JOBS, now)}, "
            "if the jobs take as long there."
        )
