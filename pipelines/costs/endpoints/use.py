"""Summarize the utilization of the instances of endpoints, and build the table of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from pipelines.costs.endpoints.fleets import HOUR_S
from pipelines.costs.endpoints.ledger import OBSERVED_COLUMN
from pipelines.costs.report import fill_table
from pipelines.costs.usage.columns import RESOURCES
from pipelines.costs.usage.report import format_use

HEADINGS = ("observed\nh", "CPU\n%", "memory\n%", "disk\n%", "GPU\n%", "GPU memory\n%")
CAPTION = (
    "Mean / peak. 100 % of CPU is one core, 100 % of GPU is one GPU; memory and disk are those of the instance. "
    "-: not known."
)

Row = Mapping[str, Any]


def summarize_endpoint_use(rows: Sequence[Row]) -> dict[str, Any]:
    """Summarize the utilization of the instances of endpoints.

    Returns:
        `observed_h`, the hours for which the utilization of the CPU is known; for each resource `RESOURCE_peak` and
        `RESOURCE_mean`, percent, over the rows whose utilization is known; None if there is none.
    """
    summary: dict[str, Any] = {OBSERVED_COLUMN: sum(row[OBSERVED_COLUMN] or 0.0 for row in rows)}
    for resource in RESOURCES:
        peaks = [row[f"{resource}_peak"] for row in rows if row[f"{resource}_peak"] is not None]
        summary[f"{resource}_peak"] = max(peaks, default=None)
        summary[f"{resource}_mean"] = compute_mean_use(rows, resource)
    return summary


def compute_mean_use(rows: Iterable[Row], resource: str) -> float | None:
    """Compute the mean utilization of a resource, percent, weighted by observed instance hours; None if not known.

    The weight of a row is its observed hours times its mean number of instances. A mean number below 1 counts as 1.

    Args:
        rows: rows of the ledger of endpoints.
        resource: name of the resource.
    """
    known_rows = [row for row in rows if row[f"{resource}_mean"] is not None and row[OBSERVED_COLUMN]]
    weights = [row[OBSERVED_COLUMN] * max(1.0, row["instance_h"] / get_hours(row)) for row in known_rows]
    total = sum(row[f"{resource}_mean"] * weight for row, weight in zip(known_rows, weights, strict=True))
    return float(total / sum(weights)) if known_rows else None


def build_endpoint_use_table(groups: Sequence[Row], keys: Sequence[str], total: Row) -> Table:
    """Build the table of the utilization of the instances of endpoints.

    Args:
        groups: groups of rows, summed up with `summarize_endpoint_use`.
        keys: grouping keys.
        total: summary of all rows.
    """
    table = Table(title="Utilization of the instances of endpoints", caption=CAPTION, caption_justify="left")
    fill_table(table, HEADINGS, keys, [*groups, total], _format_cells)
    return table


def get_hours(row: Row) -> float:
    """Return the length of a row's period, hours."""
    return float((row["end"] - row["begin"]).total_seconds()) / HOUR_S


def _format_cells(summary: Row) -> list[str]:
    uses = [format_use(summary[f"{resource}_mean"], summary[f"{resource}_peak"]) for resource in RESOURCES]
    return [f"{summary[OBSERVED_COLUMN]:,.1f}", *uses]
