"""The part of `python -m pipelines costs report` about jobs and endpoints: tables, JSON, and a chart of the months."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.cli.terminal import make_console
from pipelines.errors import SpecError
from pipelines.system.log import log

Rows = Sequence[Mapping[str, Any]]
"""Rows of the ledger. An argument `rows` has those of jobs, `endpoint_rows` those of endpoints."""


def draw_chart(png: str, rows: Rows, endpoint_rows: Rows) -> None:
    """Draw the chart of the months to a file, if there is any cost.

    Raises:
        SpecError: the file cannot be written. A retry cannot help.
    """
    from pipelines.costs import report as cost_report
    from pipelines.costs.endpoints import report as endpoint_report

    if not rows and not endpoint_rows:
        log.warning("no chart was written to %s: there is no cost to draw", png)
        return
    saving_label = endpoint_report.SAVING_LABEL if endpoint_rows else cost_report.SAVED_BY_SPOT
    try:
        cost_report.draw_chart(Path(png), [*rows, *endpoint_report.build_chart_rows(endpoint_rows)], saving_label)
    except OSError as error:
        raise SpecError(f"{png}: {error.strerror}.", "Give a file that can be written.") from None
    log.info("chart written to %s", png)


def build_report(rows: Rows, endpoint_rows: Rows, keys: Sequence[str]) -> dict[str, Any]:
    """Return the groups and totals of jobs and of endpoints, as JSON values."""
    from pipelines.costs.endpoints.report import group_endpoint_rows, sum_endpoint_rows
    from pipelines.costs.report import group_rows, sum_rows
    from pipelines.costs.usage.report import summarize_usage

    total, endpoint_total = sum_rows(rows), sum_endpoint_rows(endpoint_rows)
    return {
        "groups": group_rows(rows, keys),
        "total": total,
        "usage": {"groups": group_rows(rows, keys, summarize_usage), "total": summarize_usage(rows)},
        "endpoints": {"groups": group_endpoint_rows(endpoint_rows, keys), "total": endpoint_total},
        "total_usd": total["cost_usd"] + endpoint_total["cost_usd"],
    }


def print_tables(rows: Rows, endpoint_rows: Rows, keys: Sequence[str]) -> None:
    """Print the tables of the costs and of the utilization of jobs and of endpoints, and the sum of both costs.

    A table without rows is left out. The utilization of endpoints is left out if it is not known, and the sum if there
    are only jobs or only endpoints.
    """
    from pipelines.costs.charges import format_usd
    from pipelines.costs.endpoints.report import build_endpoint_table, group_endpoint_rows
    from pipelines.costs.endpoints.use import build_endpoint_use_table, summarize_endpoint_use
    from pipelines.costs.report import build_table, describe_price_dates, group_rows, sum_rows
    from pipelines.costs.usage.report import build_usage_table, summarize_usage

    console = make_console()
    if rows:
        console.print(build_table(group_rows(rows, keys), keys, sum_rows(rows), describe_price_dates(rows)))
        console.print(build_usage_table(group_rows(rows, keys, summarize_usage), keys, summarize_usage(rows)))
    if endpoint_rows:
        console.print(build_endpoint_table(endpoint_rows, keys))
        if (total := summarize_endpoint_use(endpoint_rows))["observed_h"]:
            console.print(build_endpoint_use_table(group_endpoint_rows(endpoint_rows, keys), keys, total))
    if rows and endpoint_rows:
        console.print(f"Jobs and endpoints: {format_usd(sum(row['cost_usd'] for row in (*rows, *endpoint_rows)))}.")
