"""Say which jobs need only a smaller instance type, and which jobs need a larger one, by what they used."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.costs.charges import format_usd
from pipelines.costs.usage.fitting_types import FULL_PERCENT, find_cheaper_type, find_larger_type
from pipelines.costs.usage.other_types import PricedType, list_other_types
from pipelines.costs.usage.task_jobs import (
    MAX_AGE_DAYS,
    MAX_JOBS,
    MIN_USD,
    describe_days,
    describe_jobs,
    describe_yearly_usd,
    get_kind,
    group_by_task,
)
from pipelines.instances.catalogue import Size, find_size

Row = Mapping[str, Any]


def list_size_advice(rows: Sequence[Row], now: dt.datetime) -> list[str]:
    """List sentences that each name a smaller or a larger instance type for the jobs of a task.

    Of the `MAX_JOBS` newest jobs of a task, those on the instance type of the newest one are examined. A larger type is
    suggested if one of them nearly filled its memory. A smaller type is suggested only if all `MAX_JOBS` completed on
    the same type without accelerators, and their utilization is known.

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
        yield _advise_larger(rows, full_rows[-1], size, now)
    elif len(last_rows) == MAX_JOBS and not size.is_accelerated:
        yield from _advise_smaller(rows, size, now)


def _advise_larger(task_rows: Sequence[Row], row: Row, size: Size, now: dt.datetime) -> str:
    """Return the sentence about a job that nearly filled its memory, with a larger type and its price."""
    best_type = find_larger_type(_list_types(row), size)
    ending = "take an instance type with more"
    if best_type:
        ending = f"{best_type.describe()} has more, at {best_type.describe_price()}"
        ending += _describe_difference(task_rows, row, best_type, now)
    return (
        f"{describe_jobs(row, 1)} used {row['memory_peak']:.0f}% of its memory ({row['name']}, "
        f"{row['created']:%Y-%m-%d}); a job that needs more than it has is killed: {ending}."
    )


def _describe_difference(task_rows: Sequence[Row], row: Row, other: PricedType, now: dt.datetime) -> str:
    """Describe how much more or less the last jobs on the present type would have cost on another type."""
    costs = [item["cost_usd"] for item in task_rows[-MAX_JOBS:] if item["instance_type"] == row["instance_type"]]
    difference_usd = sum(costs) / len(costs) * (other.price_share - 1)
    yearly = describe_yearly_usd(task_rows, abs(difference_usd), now)
    word = "more" if difference_usd >= 0 else "less"
    return f", about {format_usd(abs(difference_usd))} {word} a job{yearly}, if the jobs take as long there"


def _list_types(row: Row) -> list[PricedType]:
    """List the types that could replace that of a job."""
    return list_other_types(row["instance_type"], row["region"], get_kind(row))


def _advise_smaller(task_rows: Sequence[Row], size: Size, now: dt.datetime) -> Iterator[str]:
    """Yield a sentence if the last jobs succeeded, their utilization is known, and a cheaper type fits their peaks."""
    rows, newest_row = task_rows[-MAX_JOBS:], task_rows[-1]
    peaks = [(row["cpu_peak"], row["memory_peak"]) for row in rows]
    if any(row["status"] != "Completed" for row in rows) or any(None in peak for peak in peaks):
        return
    cpu, memory = (max(values) for values in zip(*peaks, strict=True))
    best_type = find_cheaper_type(_list_types(newest_row), size, cpu, memory)
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
