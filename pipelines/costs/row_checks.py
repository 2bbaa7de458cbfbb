"""Check rows of the ledgers before sums are computed from them, so that a damaged row gives one clear line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipelines.costs.usage.columns import COLUMNS, DATA_WAIT_COLUMN
from pipelines.errors import DataError

AMOUNTS = (
    *("cost_usd", "on_demand_usd", "saved_usd", "training_s", "billable_s", "first_capacity_s", "capacity_s"),
    *("lost_s", "instance_h", "zero_h", "busy_s", "instance_count", "interruptions", "price_usd_h", "instances"),
)
"""Columns that must be numbers of at least 0. A ledger has only some of them."""
REQUIRED_COLUMNS = ("date", "arn", "created", "begin", "end")
"""Columns that must have a value. A ledger has only some of them."""
OPTIONAL_AMOUNTS = (*COLUMNS, DATA_WAIT_COLUMN, "queue_s", "observed_h", "input_bytes")
"""Columns that may be null, and must otherwise be numbers of at least 0. A ledger has only some of them."""
TIME_PAIRS = (("created", "ended"), ("started", "ended"), ("begin", "end"))
"""Pairs of columns of which the first must not be later than the second."""

Row = Mapping[str, Any]


def check_rows(rows: Iterable[Row], names: Sequence[str] = (*AMOUNTS, *OPTIONAL_AMOUNTS)) -> None:
    """Refuse rows without a required value, with a time that ends before it begins, or with an invalid number.

    A number is invalid if it is negative, not finite, or null although it is required.

    Args:
        rows: rows of the ledger of jobs or of endpoints.
        names: columns with numbers to check; without any, no numbers are checked.

    Raises:
        DataError: a row is damaged. The message names the first one. A retry cannot help.
    """
    for row in rows:
        if problem := _find_problem(row, names):
            name = row.get("name") or row.get("endpoint") or "?"
            hint = "The ledger is append-only, so another program changed it: restore its table from the backup."
            raise DataError(f"the ledger's row of {str(name)[:100]} is damaged: {problem}.", hint)


def sum_project_cost_usd(rows: Iterable[Row], project: str) -> float:
    """Sum the cost of the rows of a project, USD. An empty project selects the rows without a project.

    Raises:
        DataError: a row of the project is damaged, such as one whose cost is not known. A retry cannot help.
    """
    project_rows = [row for row in rows if (row["project"] or "") == project]
    check_rows(project_rows, ("cost_usd",))
    return float(sum(row["cost_usd"] for row in project_rows))


def _find_problem(row: Row, names: Sequence[str]) -> str:
    """Return what is wrong with a row; empty if nothing is."""
    for name in REQUIRED_COLUMNS:
        if row.get(name, "") is None:
            return f"{name} is None"
    for name in names:
        value = row.get(name, 0)
        if value is None and name in OPTIONAL_AMOUNTS:
            continue
        if value is None or not math.isfinite(value) or value < 0:
            return f"{name} is {value}"
    for begin, end in TIME_PAIRS:
        if row.get(begin) and row.get(end) and row[begin] > row[end]:
            return f"{end} ({row[end]:%Y-%m-%d %H:%M:%S}) is before {begin} ({row[begin]:%Y-%m-%d %H:%M:%S})"
    return ""
