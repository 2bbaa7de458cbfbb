"""Spread the costs that a savings plan covers over hours, at on-demand prices."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

HOUR = dt.timedelta(hours=1)

Row = Mapping[str, Any]


def is_covered(row: Row) -> bool:
    """Return whether a savings plan of SageMaker covers a row: on-demand instances, and neither spot nor serverless."""
    return not row["memory_mb"] if "begin" in row else not row["spot"]


def spread_costs(rows: Iterable[Row], begin: dt.datetime, hours: int) -> list[float]:
    """Return the covered cost of each hour, USD. The cost of a row is spread evenly over its time.

    Args:
        rows: rows of both ledgers. Those that a savings plan does not cover are left out.
        begin: beginning of the first hour.
        hours: number of hours.
    """
    costs = [0.0] * hours
    for row in filter(is_covered, rows):
        row_begin, row_end = _get_span(row)
        duration = max(row_end - row_begin, dt.timedelta(seconds=1))
        for index in range(max((row_begin - begin) // HOUR, 0), min((row_begin + duration - begin) // HOUR + 1, hours)):
            start = max(row_begin, begin + index * HOUR)
            overlap = min(row_begin + duration, begin + (index + 1) * HOUR) - start
            costs[index] += row["cost_usd"] * max(overlap / duration, 0.0)
    return costs


def _get_span(row: Row) -> tuple[dt.datetime, dt.datetime]:
    """Return the beginning and the end of the time that a row paid for."""
    if "begin" in row:
        return row["begin"], row["end"]
    begin = row["started"] or row["created"]
    return begin, row["ended"] or begin
