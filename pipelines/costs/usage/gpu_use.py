"""Say which jobs leave most of their GPUs unused, and which cheaper type would be enough for them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.costs.charges import format_usd
from pipelines.costs.usage.columns import DATA_WAIT_COLUMN
from pipelines.costs.usage.data_waits import MIN_SHARE
from pipelines.costs.usage.fitting_types import find_cheaper_gpu_type
from pipelines.costs.usage.other_types import list_other_types
from pipelines.costs.usage.report import compute_mean
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
from pipelines.instances.catalogue import Size, find_instance, find_size

LOW_PERCENT = 50.0
"""A job with a mean utilization of its GPUs below this value, percent, leaves most of them unused."""

Row = Mapping[str, Any]


def list_gpu_advice(rows: Sequence[Row], now: dt.datetime) -> list[str]:
    """List sentences that each name the jobs of a task that leave most of their GPUs unused.

    Each of the `MAX_JOBS` newest jobs must have completed on the same type, with a known mean utilization below
    `LOW_PERCENT`. There is no sentence if the newest job is older than `MAX_AGE_DAYS` days, or if the unused part cost
    less than `MIN_USD`. There is also none about jobs that wait for data, because `data_waits` names this cause.

    Args:
        rows: rows of the ledger of jobs, oldest first.
        now: the current moment.
    """
    return [sentence for task_rows in group_by_task(rows) for sentence in _advise(task_rows, now)]


def _advise(task_rows: Sequence[Row], now: dt.datetime) -> Iterator[str]:
    rows, newest_row = task_rows[-MAX_JOBS:], task_rows[-1]
    size = find_size(newest_row["instance_type"] or "")
    if size is None or not size.gpus or newest_row["created"] < now - dt.timedelta(MAX_AGE_DAYS):
        return
    if len(rows) < MAX_JOBS or not all(_has_low_use(row, newest_row["instance_type"], size) for row in rows):
        return
    if (compute_mean(rows, DATA_WAIT_COLUMN) or 0.0) >= MIN_SHARE:
        return
    used_share = (compute_mean(rows, "gpu_mean") or 0.0) / 100 / size.gpus
    idle_usd = sum(row["cost_usd"] for row in rows) * (1 - used_share)
    if idle_usd >= MIN_USD:
        gpus = f"its {size.gpus} GPUs" if size.gpus > 1 else "its GPU"
        yield (
            f"{describe_jobs(newest_row, MAX_JOBS)} used {used_share:.0%} of {gpus} on average "
            f"({describe_days(rows)}); the rest cost about {format_usd(idle_usd)}"
            f"{describe_yearly_usd(task_rows, idle_usd / MAX_JOBS, now)}: "
            f"{_advise_on_type(task_rows, used_share, size, now)}larger batches may use more of {gpus}."
        )


def _has_low_use(row: Row, instance_type: str, size: Size) -> bool:
    is_evidence = row["status"] == "Completed" and row["instance_type"] == instance_type
    return is_evidence and row["gpu_mean"] is not None and row["gpu_mean"] < LOW_PERCENT * size.gpus


def _advise_on_type(task_rows: Sequence[Row], used_share: float, size: Size, now: dt.datetime) -> str:
    """Describe the cheapest type that would be enough; empty if there is none, or if a peak is not known."""
    rows = task_rows[-MAX_JOBS:]
    names = ("cpu_peak", "memory_peak", "gpu_memory_peak")
    if any(row[name] is None for row in rows for name in names):
        return ""
    cpu_peak, memory_peak, gpu_memory_peak = (max(row[name] for row in rows) for name in names)
    instance_type = rows[-1]["instance_type"]
    types = list_other_types(instance_type, rows[-1]["region"], get_kind(rows[-1]))
    peaks = (cpu_peak, memory_peak, gpu_memory_peak)
    best_type = find_cheaper_gpu_type(types, find_instance(instance_type), size, used_share, peaks)
    if best_type is None:
        return ""
    saved_usd = sum(row["cost_usd"] for row in rows) * (1 - best_type.price_share)
    return (
        f"{best_type.describe()} would be enough by these figures, and would have cost about {format_usd(saved_usd)} "
        f"less{describe_yearly_usd(task_rows, saved_usd / MAX_JOBS, now)}, if the jobs take as long there; or "
    )
