"""Spread the costs of jobs and endpoints, at on-demand prices, over hours: only costs that a savings plan can cover."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HOUR = dt.timedelta(hours=1)

Row = Mapping[str, Any]


def can_be_covered(row: Row) -> bool:
    """Return whether a savings plan of SageMaker covers a row: on-demand instances, and neither spot nor serverless.

    Only rows of endpoints have the column `begin`.
    """
    return not row["memory_mb"] if "begin" in row else not row["spot"]


def spread_costs(rows: Iterable[Row], begin: dt.datetime, hours: int) -> list[float]:
    """Return, for each hour, the cost that savings plans can cover, USD; a row's cost is spread evenly over its time.

    Args:
        rows: rows of both ledgers. Rows that a savings plan does not cover are left out.
        begin: beginning of the first hour.
        hours: number of hours.
    """
    costs = [0.0] * hours
    for row in filter(can_be_covered, rows):
        for index, usd in spread_row(row, begin):
            if 0 <= index < hours:
                costs[index] += usd
    return costs


def spread_row(row: Row, begin: dt.datetime) -> Iterator[tuple[int, float]]:
    """Yield the number of each hour in which a row has a cost, and this cost, USD. Hour 0 begins at `begin`."""
    row_begin, row_end = _get_span(row)
    row_end = max(row_end, row_begin + dt.timedelta(seconds=1))  # a span without length cannot be divided
    for index in range((row_begin - begin) // HOUR, (row_end - begin) // HOUR + 1):
        overlap = min(row_end, begin + (index + 1) * HOUR) - max(row_begin, begin + index * HOUR)
        if overlap > dt.timedelta():
            yield index, row["cost_usd"] * (overlap / (row_end - row_begin))


def _get_span(row: Row) -> tuple[dt.datetime, dt.datetime]:
    """Return the beginning and the end of the time for which the cost of a row is charged."""
    if "begin" in row:
        return row["begin"], row["end"]
    begin = row["started"] or row["created"]
    return begin, row["ended"] or begin
