"""Split the files of a range of days into parts of a few days each.

If an expression gives the same rows for the parts as for all days together, it is computed for one part at a time. The
sort and the SQL window functions of a part fit in memory, so less is spilled to disk.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import ibis
import ibis.expr.operations as ops
import pyarrow.parquet as pq

from pipelines.window import Days

DATE_COLUMN = "date"
PART_ROWS = 512 * 1024
"""If a part has at least this many rows, a file whose days are all later begins the next part."""
ROW_BY_ROW = (ops.DatabaseTable, ops.Project, ops.Filter, ops.Sort, ops.DropColumns)
"""Relations that make each row from one input row. Only window functions in them may read other rows."""


@dataclass(frozen=True, order=True)
class File:
    """A Parquet file, and the days of its rows from `first` to `last`."""

    first: dt.date
    last: dt.date
    path: str
    rows: int
    """Number of rows."""


def is_computed_by_day(table: ibis.Table) -> bool:
    """Return whether each row depends only on rows of its own day, and the rows are sorted first by day."""
    root = table.op()
    return (
        isinstance(root, ops.Sort)
        and all(isinstance(relation, ROW_BY_ROW) for relation in root.find(ops.Relation))
        and root.keys[0].ascending
        and _is_day_column(root.keys[0].arg)
        and all(any(map(_is_day_column, function.group_by)) for function in root.find(ops.WindowFunction))
    )


def _is_day_column(value: ops.Node) -> bool:
    """Return whether the value is the column `DATE_COLUMN` of the files, not another column of the same name."""
    while isinstance(value, ops.Field) and not isinstance(value.rel, ops.DatabaseTable):
        value = value.rel.values[value.name]
    return isinstance(value, ops.Field) and value.name == DATE_COLUMN


def list_files_by_day(paths: Sequence[str]) -> list[File]:
    """Return the files, sorted by the days in their statistics. Without statistics, a file may have rows of any day."""
    return sorted(_describe_file(path) for path in paths)


def _describe_file(path: str) -> File:
    """Read the number of rows of a file, and their first and last day, from the file's metadata."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    day_ranges = [column.statistics for column in columns if column.path_in_schema == DATE_COLUMN]
    if len(day_ranges) != len(groups) or not all(days is not None and days.has_min_max for days in day_ranges):
        return File(dt.date.min, dt.date.max, path, metadata.num_rows)
    # A file without row groups has no rows: it gets a day that no range of days contains.
    first = min((days.min for days in day_ranges), default=dt.date.max)
    last = max((days.max for days in day_ranges), default=dt.date.max)
    return File(first, last, path, metadata.num_rows)


def split_by_days(files: Sequence[File], days: Days) -> list[list[str]]:
    """Split the files with rows of `days` into parts. All days of a part are later than those of the part before.

    Args:
        files: the files, sorted by day.
        days: the days to read; files without rows of these days are left out.

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
