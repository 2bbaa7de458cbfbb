"""A window in parts, each of days of its own, where an expression gives the same by parts as in one piece.

A part's window functions and its sort fit in memory: less is spilled, and what a core computes stays near it.
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
"""Files are put together until they have so many."""
ROW_BY_ROW = (ops.DatabaseTable, ops.Project, ops.Filter, ops.Sort, ops.DropColumns)
"""Relations that give a row for a row or none, but for their window functions."""


@dataclass(frozen=True, order=True)
class File:
    """A Parquet file and the days of its rows."""

    first: dt.date
    last: dt.date
    path: str
    rows: int


def is_computed_by_day(table: ibis.Table) -> bool:
    """Each row of `table` is made of rows of its own day alone, and it is sorted by the day before all else."""
    top = table.op()
    return (
        isinstance(top, ops.Sort)
        and all(isinstance(one, ROW_BY_ROW) for one in top.find(ops.Relation))
        and top.keys[0].ascending
        and _is_day_column(top.keys[0].arg)
        and all(any(map(_is_day_column, one.group_by)) for one in top.find(ops.WindowFunction))
    )


def _is_day_column(value: ops.Node) -> bool:
    """It is the column `DAY` of the rows themselves, not another one that goes by its name."""
    while isinstance(value, ops.Field) and not isinstance(value.rel, ops.DatabaseTable):
        value = value.rel.values[value.name]
    return isinstance(value, ops.Field) and value.name == DAY


def read_days_of_files(paths: Sequence[str]) -> list[File]:
    """The files by their days, as their own statistics tell; where these do not, it may be any day."""
    return sorted(_read_days(path) for path in paths)


def _read_days(path: str) -> File:
    told = pq.read_metadata(path)
    groups = [told.row_group(number) for number in range(told.num_row_groups)]
    columns = [group.column(at) for group in groups for at in range(group.num_columns)]
    days = [column.statistics for column in columns if column.path_in_schema == DAY]
    if len(days) != len(groups) or not all(one is not None and one.has_min_max for one in days):
        return File(dt.date.min, dt.date.max, path, told.num_rows)
    first = min((one.min for one in days), default=dt.date.max)
    last = max((one.max for one in days), default=dt.date.max)
    return File(first, last, path, told.num_rows)


def split_by_days(of: Sequence[File], days: Days) -> list[list[str]]:
    """The files with rows of the days, in parts: none has a row of a day that an earlier one has, or of one before."""
    made: list[list[str]] = []
    reach, rows = dt.date.min, 0
    for file in (one for one in of if one.first <= days.last and one.last >= days.first):
        if not made or (rows >= PART_ROWS and file.first > reach):
            made.append([])
            rows = 0
        made[-1].append(file.path)
        reach, rows = max(reach, file.last), rows + file.rows
    return made
