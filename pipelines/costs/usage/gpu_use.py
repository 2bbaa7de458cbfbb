"""Say which jobs leave most of their GPUs unused, and which cheaper type would be enough for them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.costs.charges import format_usd
from pipelines.costs.usage.columns import DATA_WAIT_COLUMN
from pipelines.costs.usage.data_waits import MIN_SHARE
from pipelines.costs.usage.other_types import PricedType, list_other_types
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
from pipelines.instances.catalogue import Instance, Size, find_instance, find_size

LOW_PERCENT = 50.0
"""Each of the last jobs must have a mean use of its GPUs below this value, percent."""
MAX_USED_SHARE = 0.8
"""A type is advised only if the jobs would need at most this share of each of its resources."""

Row = Mapping[str, Any]


def list_gpu_advice(rows: Sequence[Row], now: dt.datetime) -> list[str]:
    """List sentences that each name the jobs of a task that leave most of their GPUs unused.

    Each of the newest jobs must have completed on the same type, with a known mean use below `LOW_PERCENT`. Jobs that
    wait for data are left out, because `data_waits` names the cause.

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
    """Name the cheapest type that has what the jobs used; empty if there is none, or if a peak is not known."""
    rows = task_rows[-MAX_JOBS:]
    names = ("cpu_peak", "memory_peak", "gpu_memory_peak")
    if any(row[name] is None for row in rows for name in names):
        return ""
    cpu, memory, gpu_memory = (max(row[name] for row in rows) / 100 for name in names)
    instance = find_instance(rows[-1]["instance_type"])
    flops = used_share * (_sum_flops(instance) or 0.0)
    fitting_types = [
        other
        for other in list_other_types(rows[-1])
        if other.price_share < 1
        and 0 < flops <= MAX_USED_SHARE * (_sum_flops(other.instance) or 0.0)
        and cpu <= MAX_USED_SHARE * other.size.vcpus
        and memory * size.memory_gib <= MAX_USED_SHARE * other.size.memory_gib
        # Each GPU holds the whole model, however many there are.
        and gpu_memory / size.gpus * (instance.accelerator_memory_gib or 0.0)
        <= MAX_USED_SHARE * (other.instance.accelerator_memory_gib or 0.0)
    ]
    best_type = min(fitting_types, key=PricedType.get_rank, default=None)
    if best_type is None:
        return ""
    saved_usd = sum(row["cost_usd"] for row in rows) * (1 - best_type.price_share)
    return (
        f"{best_type.describe()} would be enough by these figures, and would have cost about {format_usd(saved_usd)} "
        f"less{describe_yearly_usd(task_rows, saved_usd / MAX_JOBS, now)}, if the jobs take as long there; or "
    )


def _sum_flops(instance: Instance) -> float | None:
    """Return the 16-bit peak of all GPUs of an instance, FLOP/s; None if it is not known."""
    if instance.device is None or instance.device.flops is None:
        return None
    return instance.device.flops * (instance.accelerators or 0)
