"""Summarize what jobs used of their instances, and build the table of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from pipelines.costs.report import fill_table
from pipelines.costs.usage.columns import DATA_WAIT_COLUMN, RESOURCES

HEADINGS = ("jobs", "queue\ns", "CPU\n%", "memory\n%", "disk\n%", "GPU\n%", "GPU memory\n%", "data wait\n%")
CAPTION = (
    "Mean / peak. 100 % of CPU is one core, 100 % of GPU is one GPU; memory and disk are those of the instance. "
    "Data wait: share of their time that trainings waited for data. -: not known."
)

Row = Mapping[str, Any]


def summarize_usage(rows: Sequence[Row]) -> dict[str, Any]:
    """Summarize the utilization of the instances of jobs.

    Returns:
        `jobs`, the number of jobs; `queue_s`, the mean wait of a job in a queue and from its creation to its first
        instances, seconds; for each resource `RESOURCE_peak` and `RESOURCE_mean`, percent, over the jobs whose
        utilization is known; None if there is none. Longer jobs have more weight in the mean. `data_wait_share`, from
        0 to 1, is such a mean, too.
    """
    summary: dict[str, Any] = {"jobs": len(rows)}
    waits = [(row.get("queue_s") or 0.0) + (row["first_capacity_s"] or 0.0) for row in rows]
    summary["queue_s"] = sum(waits) / len(rows) if rows else 0.0
    for resource in RESOURCES:
        summary[f"{resource}_peak"] = max(_list_known_values(rows, f"{resource}_peak"), default=None)
        summary[f"{resource}_mean"] = compute_mean(rows, f"{resource}_mean")
    summary[DATA_WAIT_COLUMN] = compute_mean(rows, DATA_WAIT_COLUMN)
    return summary


def compute_mean(rows: Sequence[Row], name: str) -> float | None:
    """Compute the mean of a column over the jobs that have a value, weighted by instance-seconds; None if none has."""
    known_rows = [row for row in rows if row[name] is not None]
    weights = [max(row["training_s"], 1) * row["instance_count"] for row in known_rows]
    products = (row[name] * weight for row, weight in zip(known_rows, weights, strict=True))
    return sum(products) / sum(weights) if known_rows else None


def _list_known_values(rows: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in rows if row[name] is not None]


def build_usage_table(groups: Sequence[Row], keys: Sequence[str], total: Row) -> Table:
    """Build the table of the utilization of instances.

    Args:
        groups: the groups of `pipelines.costs.report.group_rows`, with the figures of `summarize_usage`.
        keys: grouping keys.
        total: summary of all rows.
    """
    table = Table(title="Utilization of the instances", caption=CAPTION, caption_justify="left")
    fill_table(table, HEADINGS, keys, [*groups, total], _format_cells)
    return table


def _format_cells(summary: Row) -> list[str]:
    cells = [format_use(summary[f"{resource}_mean"], summary[f"{resource}_peak"]) for resource in RESOURCES]
    share = summary[DATA_WAIT_COLUMN]
    wait = "-" if share is None else f"{100 * share:.0f}"
    return [str(summary["jobs"]), f"{summary['queue_s']:,.0f}", *cells, wait]


def format_use(mean: float | None, peak: float | None) -> str:
    """Format mean and peak of a resource, percent, for a cell of a table; "-" if they are not known."""
    return "-" if mean is None or peak is None else f"{mean:.0f} / {peak:.0f}"
