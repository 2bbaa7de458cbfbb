"""Say which jobs would do with a smaller instance type, and which ones need a larger one, by what they used."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.costs.charges import format_usd
from pipelines.costs.prices import list_prices
from pipelines.instances.catalogue import Size, find_size

RUNS = 5
"""Number of jobs in a row that must have used little before a smaller type is named."""
DAYS = 90
"""If the newest of the jobs is at least this number of days old, there is no advice about them."""
MAX_USED_PERCENT = 80.0
"""Largest use of CPU and memory, percent, that the peaks of the jobs may have on a smaller type."""
FULL_PERCENT = 90.0
"""Peak of memory, percent, above which a larger type is named."""
MIN_USD = 0.01
"""Smallest saving that is named, USD."""

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


def group_by_task(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each task, oldest first."""
    rows_by_task: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = (row["model"] or "", row["dag_id"] or "", row["task_id"] or "", get_kind(row), row["region"] or "")
        rows_by_task.setdefault(key, []).append(row)
    return [rows_by_task[key] for key in sorted(rows_by_task)]


def _advise(rows: Sequence[Row], now: dt.datetime) -> Iterator[str]:
    newest = rows[-1]
    size = find_size(newest["instance_type"] or "")
    if size is None or newest["created"] < now - dt.timedelta(DAYS):
        return
    last_rows = [row for row in rows[-RUNS:] if row["instance_type"] == newest["instance_type"]]
    full_rows = [row for row in last_rows if (row["memory_peak"] or 0.0) > FULL_PERCENT]
    if full_rows:
        yield _advise_larger(full_rows[-1], size)
    elif len(last_rows) == RUNS and not size.is_accelerated:
        yield from _advise_smaller(last_rows, size)


def _advise_larger(row: Row, size: Size) -> str:
    larger_types = [
        (other.memory_gib, other.vcpus, name)
        for name, other in _list_family(row, size).items()
        if other.memory_gib > size.memory_gib and other.vcpus >= size.vcpus
    ]
    memory, _, name = min(larger_types, default=(0, 0, ""))
    ending = f"{name} has {memory / size.memory_gib:g} times as much" if name else "take an instance type with more"
    return (
        f"{describe_jobs(row, 1)} used {row['memory_peak']:.0f}% of its memory ({row['name']}, "
        f"{row['created']:%Y-%m-%d}); a job that needs more than it has is killed: {ending}."
    )


def _advise_smaller(rows: Sequence[Row], size: Size) -> Iterator[str]:
    """Yield a sentence if all jobs have succeeded, their use is known, and their peaks fit on a smaller type."""
    peaks = [(row["cpu_peak"], row["memory_peak"]) for row in rows]
    if any(row["status"] != "Completed" for row in rows) or any(None in peak for peak in peaks):
        return
    cpu, memory = (max(values) for values in zip(*peaks, strict=True))
    prices, newest = list_prices(rows[-1]["region"]), rows[-1]
    price = prices.get(newest["instance_type"])
    fitting_types = [
        (prices[name], name)
        for name, other in _list_family(newest, size).items()
        if other.memory_gib < size.memory_gib
        and cpu <= MAX_USED_PERCENT * other.vcpus
        and memory * size.memory_gib / other.memory_gib <= MAX_USED_PERCENT
    ]
    if not fitting_types or price is None:
        return
    smaller_price, name = min(fitting_types)
    saved_usd = sum(row["cost_usd"] for row in rows) * (1 - smaller_price / price)
    if saved_usd >= MIN_USD:
        yield (
            f"{describe_jobs(newest, RUNS)} used at most {cpu / size.vcpus:.0f}% of its {size.vcpus} vCPUs and "
            f"{memory:.0f}% of its memory ({rows[0]['created']:%Y-%m-%d} to {newest['created']:%Y-%m-%d}): {name} "
            f"would do, and would have cost about {format_usd(saved_usd)} less, if the jobs take as long there."
        )


def _list_family(row: Row, size: Size) -> dict[str, Size]:
    """Return the types of the same family that have a known price in the region of a job."""
    sizes = {name: find_size(name) for name in list_prices(row["region"])}
    return {name: other for name, other in sizes.items() if other is not None and other.family == size.family}


def describe_jobs(row: Row, count: int) -> str:
    """Describe the jobs as the subject of a sentence."""
    subject = f"model {row['model']}" if row["model"] else f"task {row['task_id']}" if row["task_id"] else "no model"
    jobs = f"The last {count} {get_kind(row)} jobs" if count > 1 else f"A {get_kind(row)} job"
    return f"{jobs} of {subject} on {row['instance_type']}"


def get_kind(row: Row) -> str:
    """Return training, processing or transform, as the job's ARN says."""
    return str(row["arn"]).rpartition(":")[2].partition("-job/")[0]
