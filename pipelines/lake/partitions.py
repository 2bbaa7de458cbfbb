"""Build filters that select partitions of a table, and find the partition of a data file.

Every table is partitioned by `date`. A table with partitions by hour is also partitioned by `hour`; a partition by
month has the first day of the month as its `date`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    Or,
)
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from pipelines.lake.commits import DATE_COLUMN
from pipelines.partitions import HOUR_COLUMN, Hour, Month, Partition, PartitionT, get_date, get_unit
from pipelines.window import Unit

WHOLE_PARTITION: Mapping[str, str] = {}
"""The `part_values` that select all rows of a partition. Other `part_values`, such as {"model": "flights", "version":
"3"}, select only the rows that have these values in these columns."""
_EPOCH = dt.date(1970, 1, 1)
"""Iceberg stores a date as the number of days since this day."""


def list_partition_columns(partition: Partition, part_values: Mapping[str, str]) -> list[str]:
    """List the columns besides `date` by which the table of a partition is partitioned."""
    return [*([HOUR_COLUMN] if isinstance(partition, Hour) else []), *part_values]


def build_filter(partition: Partition, part_values: Mapping[str, str] = WHOLE_PARTITION) -> BooleanExpression:
    """Build the filter of one partition, or of its rows with `part_values`."""
    conditions: list[BooleanExpression] = [EqualTo(name, value) for name, value in part_values.items()]
    if isinstance(partition, Hour):
        conditions.insert(0, EqualTo(HOUR_COLUMN, partition.hour))
    return reduce(And, conditions, EqualTo(DATE_COLUMN, get_date(partition).isoformat()))


def build_range_filter(first: Partition, last: Partition) -> BooleanExpression:
    """Build the filter of the partitions `first` to `last`, both included and of one unit."""
    first_day, last_day = get_date(first).isoformat(), get_date(last).isoformat()
    if first == last:
        return build_filter(first)
    is_in_range: BooleanExpression = And(
        GreaterThanOrEqual(DATE_COLUMN, first_day), LessThanOrEqual(DATE_COLUMN, last_day)
    )
    if isinstance(first, Hour) and isinstance(last, Hour):
        after_first = Or(GreaterThan(DATE_COLUMN, first_day), GreaterThanOrEqual(HOUR_COLUMN, first.hour))
        before_last = Or(LessThan(DATE_COLUMN, last_day), LessThanOrEqual(HOUR_COLUMN, last.hour))
        return And(is_in_range, after_first, before_last)
    return is_in_range


def build_days_filter(partitions: Iterable[Partition]) -> BooleanExpression:
    """Build the filter of all partitions that have the same `date` as one of `partitions`."""
    return In(DATE_COLUMN, sorted({get_date(partition).isoformat() for partition in partitions}))


def build_exclusion_filter(partitions: Collection[Partition]) -> BooleanExpression:
    """Build the filter of all partitions except these; there must be at least one."""
    return Not(reduce(Or, (build_filter(partition) for partition in partitions)))


def find_partition_of_file(table: Table, file: DataFile, unit: Unit) -> Partition:
    """Return the partition of a data file of a table: its hour, its month or its day, by `unit`."""
    names = [field.name for field in table.metadata.specs()[file.spec_id].fields]
    values = {name: file.partition[index] for index, name in enumerate(names)}
    return make_partition(values | {DATE_COLUMN: _EPOCH + dt.timedelta(values[DATE_COLUMN])}, unit)


def make_partition(values: Mapping[str, Any], unit: Unit) -> Partition:
    """Return the partition that has these values in the columns by which a table is partitioned."""
    day: dt.date = values[DATE_COLUMN]
    return Hour(day, values[HOUR_COLUMN]) if unit == "hour" else Month(day) if unit == "month" else day


def count_rows(table: Table, unit: Unit) -> dict[Partition, int]:
    """Return the row count of every partition that has rows."""
    if table.current_snapshot() is None:
        return {}
    counts: dict[Partition, int] = {}
    for row in table.inspect.partitions().select(["partition", "record_count"]).to_pylist():
        if row["record_count"]:
            partition = make_partition(row["partition"], unit)
            counts[partition] = counts.get(partition, 0) + row["record_count"]
    return counts


def list_files_by_partition(
    table: Table, partitions: Collection[PartitionT], part_values: Mapping[str, str] = WHOLE_PARTITION
) -> Iterator[tuple[PartitionT, FileScanTask]]:
    """Yield the data files of some partitions, or of their rows with `part_values`, each with its partition.

    There must be at least one partition, and all must have the same unit.
    """
    unit, partition_set = get_unit(next(iter(partitions))), set(partitions)
    row_filter = reduce(
        And, (EqualTo(name, value) for name, value in part_values.items()), build_days_filter(partitions)
    )
    for task in table.scan(row_filter=row_filter).plan_files():
        partition = find_partition_of_file(table, task.file, unit)
        if partition in partition_set:
            yield partition, task  # type: ignore[misc]


def parse_partition_text(text: str, unit: Unit) -> tuple[Partition, list[str]]:
    """Split a text such as 2013-01-01/5/flights/3, as `check.table_files.format_partition` writes it.

    Returns:
        The partition (here the hour 5 of 2013-01-01), and the values of the other columns by which the table is
        partitioned (here a model and its version).
    """
    day, *values = text.split("/")
    hour = int(values.pop(0)) if unit == "hour" else None
    return make_partition({DATE_COLUMN: dt.date.fromisoformat(day), HOUR_COLUMN: hour}, unit), values
