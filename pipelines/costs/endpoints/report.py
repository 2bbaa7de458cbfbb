"""Build reports from the ledger of endpoints: grouped sums, a table for the terminal, and rows for the chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from pipelines.costs.endpoints.ledger import get_fleet
from pipelines.costs.endpoints.use import summarize_endpoint_use
from pipelines.costs.report import describe_price_dates, fill_table, group_rows

HEADINGS = (
    *("end-\npoints", "instance\nh", "serverless\ns", "requests", "cost\nUSD"),
    *("h without\ninstance", "saved\nUSD"),
)
"""Headings of the columns with figures, in the order of `_format_cells`."""
SAVING_LABEL = "saved by spot and by scaling to zero"
"""Label of the saving in a chart of jobs and endpoints."""

Row = Mapping[str, Any]


def group_endpoint_rows(rows: Iterable[Row], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Group the rows by the keys of `costs report`, and sum the figures of each group.

    The instance type of a serverless variant is a text with its memory.
    """
    named_rows = [{**row, "instance_type": get_fleet(row).machine} for row in rows]
    return group_rows(named_rows, keys, sum_endpoint_rows)


def sum_endpoint_rows(rows: Sequence[Row]) -> dict[str, Any]:
    """Sum the figures of endpoints: hours, seconds, USD and requests. `endpoints` is the number of endpoints.

    A row whose number of requests is not known counts as 0 requests. The result also has the figures of
    `summarize_endpoint_use`.
    """
    names = ("instance_h", "busy_s", "requests", "cost_usd", "zero_h", "saved_usd")
    endpoints = {(row["region"], row["endpoint"]) for row in rows}
    sums = {name: sum(row[name] or 0 for row in rows) for name in names}
    return {"endpoints": len(endpoints), **sums, **summarize_endpoint_use(rows)}


def build_endpoint_table(rows: Sequence[Row], keys: Sequence[str]) -> Table:
    """Build the table of the groups of endpoints and their total."""
    table = Table(title="Endpoint costs", caption=describe_price_dates(rows), caption_justify="left")
    total = sum_endpoint_rows(rows)
    digits = 2 if total["cost_usd"] + total["saved_usd"] >= 10 else 4
    groups = group_endpoint_rows(rows, keys)
    fill_table(table, HEADINGS, keys, [*groups, total], lambda sums: _format_cells(sums, digits))
    return table


def build_chart_rows(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return rows of endpoints with the columns that `report.draw_chart` reads."""
    return [
        {
            **row,
            "instance_type": f"endpoint {get_fleet(row).machine}",
            "on_demand_usd": row["cost_usd"] + row["saved_usd"],
        }
        for row in rows
    ]


def _format_cells(figures: Row, digits: int) -> list[str]:
    return [
        str(figures["endpoints"]),
        f"{figures['instance_h']:,.3f}",
        f"{figures['busy_s']:,.1f}",
        f"{figures['requests']:,}",
        f"{figures['cost_usd']:,.{digits}f}",
        f"{figures['zero_h']:,.3f}",
        f"{figures['saved_usd']:,.{digits}f}",
    ]
