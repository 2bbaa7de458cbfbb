"""Split a window into parts of some days each, where an expression gives the same rows by parts as in one piece.

The window functions and the sort of a part fit in memory: less is spilled, and the data stays near the core.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import ibis
import ibis.expr.operations as ops
import pyarrow.parquet as pq

from pipelines.window import Days

DAY = "date"
PART_ROWS = 512 * 1024
"""Rows after which a part ends."""
ROW_BY_ROW = (ops.DatabaseTable, ops.Project, ops.Filter, ops.Sort, ops.DropColumns)
"""Relations that give at most one row for each row, except for their window functions."""


@dataclass(frozen=True, order=True)
class File:
    """A Parquet file and the days of its rows."""

    first: dt.date
    last: dt.date
    path: str
    rows: int


def is_computed_by_day(table: ibis.Table) -> bool:
    """Return whether each row depends on rows of its own day only, and the rows are sorted by day first."""
    top = table.op()
    return (
        isinstance(top, ops.Sort)
        and all(isinstance(relation, ROW_BY_ROW) for relation in top.find(ops.Relation))
        and top.keys[0].ascending
        and _is_day_column(top.keys[0].arg)
        and all(any(map(_is_day_column, window.group_by)) for window in top.find(ops.WindowFunction))
    )


def _is_day_column(value: ops.Node) -> bool:
    """Return whether the value is the column `DAY` of the files, not another column of the same name."""
    while isinstance(value, ops.Field) and not isinstance(value.rel, ops.DatabaseTable):
        value = value.rel.values[value.name]
    return isinstance(value, ops.Field) and value.name == DAY


def read_days_of_files(paths: Sequence[str]) -> list[File]:
    """Return the files sorted by day, from their statistics; a file without statistics may have any day."""
    return sorted(_read_days(path) for path in paths)


def _read_days(path: str) -> File:
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    days = [column.statistics for column in columns if column.path_in_schema == DAY]
    if len(days) != len(groups) or not all(day is not None and day.has_min_max for day in days):
        return File(dt.date.min, dt.date.max, path, metadata.num_rows)
    first = min((day.min for day in days), default=dt.date.max)
    last = max((day.max for day in days), default=dt.date.max)
    return File(first, last, path, metadata.num_rows)


def split_by_days(files: Sequence[File], days: Days) -> list[list[str]]:
    """Split the files with rows of `days` into parts, so that every day of a part is after all days of the part before.

    Args:
        files: sorted by day.
        days: that are needed.

    Returns:
        Paths of the files of each part.
    """
    parts: list[list[str]] = []
    last_day, rows = dt.date.min, 0
    for file in (file for file in files if file.first <= days.last and file.last >= days.first):
        if not parts or (rows >= PART_ROWS and file.first > last_day):
            parts.append([])
            rows = 0
        parts[-1].append(file.path)
        last_day, rows = max(last_day, file.last), rows + file.rows
    return parts
