"""Add the columns `date` and `hour` to the rows of a source, and find the partitions of its rows."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DataError
from pipelines.ingestion.sources.convert import Position, convert_column, to_days
from pipelines.ingestion.sources.timestamps import UTC, Zone
from pipelines.lake import DATE_COLUMN
from pipelines.partitions import HOUR_COLUMN, Hour, Month, Partition, get_date
from pipelines.window import Unit


def add_partition_columns(
    batch: pa.RecordBatch, partition: Partition, name: str, position: Position, unit: Unit = "day", timezone: str = ""
) -> pa.RecordBatch:
    """Return the batch with the column `date` and, if partitions are hours, the column `hour`.

    Args:
        batch: rows of a source.
        partition: partition of all rows; used only if `name` is empty.
        name: column that gives the partition of each row; empty if all rows are of `partition`.
        position: position of the batch in its source.
        unit: unit of the partitions.
        timezone: time zone in which the days of the column's timestamps begin; empty: UTC.

    Raises:
        DataError: a row has no day, hour or month; another column of the batch is already called `date` or `hour`; or
            partitions are months, and a value of the column `date` is not the first day of a month. A retry cannot
            help.
    """
    if name:
        columns = compute_columns(batch[name], name, position, unit, timezone)
    else:
        columns = {DATE_COLUMN: pa.repeat(pa.scalar(get_date(partition), pa.date32()), batch.num_rows)}
        if isinstance(partition, Hour):
            columns[HOUR_COLUMN] = pa.repeat(pa.scalar(partition.hour, pa.int32()), batch.num_rows)
    for column, values in columns.items():
        if column == name.lower():  # DuckDB ignores the case: with Date and date, rows could not be queried
            if unit == "month":
                _check_no_day_is_lost(batch[name], values, position)
            batch = batch.set_column(batch.schema.names.index(name), column, values)
        elif column in batch.schema.names:
            raise DataError(
                f"{position.origin} has a column {column}, but the {column if column == HOUR_COLUMN else 'day'} is to "
                f"come from {f'the column {name}' if name else 'the name of the file'}.",
                f'Rename it, or set day="{DATE_COLUMN}".' if column == DATE_COLUMN and unit == "day" else "Rename it.",
            )
        else:
            batch = batch.append_column(column, values)
    return batch


def compute_columns(array: pa.Array, name: str, position: Position, unit: Unit, timezone: str) -> dict[str, pa.Array]:
    """Compute the column `date`, and `hour` if partitions are hours, from dates or timestamps.

    If partitions are months, `date` is the first day of the month.

    Raises:
        DataError: a row has no day, hour or month. A retry cannot help.
    """
    is_timestamp = pa.types.is_timestamp(array.type)
    if unit == "hour" and not is_timestamp:
        hint = 'Declare it as a timestamp in columns=, or set partition="day".'
        raise DataError(f"{position.origin}: column {name} holds {array.type}, which has no hour.", hint)
    if is_timestamp and timezone:
        array = pc.local_timestamp(
            convert_column(array, UTC, Zone("UTC"), name, position).cast(pa.timestamp("us", timezone))
        )
    days = to_days(array, name, position)
    if unit == "month":
        return {DATE_COLUMN: pc.floor_temporal(days, unit="month").cast(pa.date32())}
    hours = {HOUR_COLUMN: pc.hour(array.cast(pa.timestamp("us"))).cast(pa.int32())} if unit == "hour" else {}
    return {DATE_COLUMN: days, **hours}


def list_partitions_of_rows(columns: dict[str, pa.Array], unit: Unit) -> set[Partition]:
    """List the partitions of rows from the columns that `compute_columns` returned."""
    if unit == "hour":
        pairs = pa.table(columns).group_by(list(columns)).aggregate([]).to_pylist()
        return {Hour(pair[DATE_COLUMN], pair[HOUR_COLUMN]) for pair in pairs}
    days: list[dt.date] = pc.unique(columns[DATE_COLUMN]).to_pylist()
    return {Month(day) for day in days} if unit == "month" else set(days)


def match_partition(batch: pa.RecordBatch, partition: Partition) -> pa.Array:
    """Return for each row whether it belongs to the partition."""
    is_of_day = pc.equal(batch[DATE_COLUMN], pa.scalar(get_date(partition)))
    if isinstance(partition, Hour):
        return pc.and_(is_of_day, pc.equal(batch[HOUR_COLUMN], pa.scalar(partition.hour, pa.int32())))
    return is_of_day


def describe_partition(batch: pa.RecordBatch, index: int, unit: Unit) -> str:
    """Describe the partition of a row, such as "day 2013-01-01"."""
    day = batch[DATE_COLUMN][index].as_py()
    hour = batch[HOUR_COLUMN][index].as_py() if unit == "hour" else 0
    partition = Hour(day, hour) if unit == "hour" else Month(day) if unit == "month" else day
    return f"{unit} {partition}"


def _check_no_day_is_lost(array: pa.Array, days: pa.Array, position: Position) -> None:
    """Refuse to replace days in the column `date` by the first days of their months: the days would be lost.

    Raises:
        DataError: a day would be lost. A retry cannot help.
    """
    old_days = array.cast(pa.date32(), safe=False) if pa.types.is_temporal(array.type) else days
    index = pc.index(pc.equal(old_days, days), False).as_py()
    if index >= 0:
        raise DataError(
            f"{position.origin}: row {position.row + index}, column {DATE_COLUMN}: {old_days[index]} is not the first "
            "day of a month, as it must be if partitions are months.",
            "Rename the column, and name it in day=.",
        )
