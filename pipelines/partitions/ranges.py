"""List ranges of partitions, and compute when partitions begin and end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from pipelines.partitions.keys import Hour, Month, Partition, PartitionT, get_date, get_unit
from pipelines.window import DAY, Days, Unit, get_month_start, subtract_months


def get_begin(partition: Partition) -> dt.datetime:
    """Return the moment at which a partition begins, in UTC."""
    hour = partition.hour if isinstance(partition, Hour) else 0
    return dt.datetime.combine(get_date(partition), dt.time(hour), dt.UTC)


def get_end(partition: Partition) -> dt.datetime:
    """Return the moment at which a partition ends, in UTC. Before this moment, not all of its rows can be known."""
    if isinstance(partition, Hour):
        return dt.datetime.combine(partition.day, dt.time(partition.hour), dt.UTC) + dt.timedelta(hours=1)
    return dt.datetime.combine(get_last_day(partition) + DAY, dt.time(), dt.UTC)


def find_partition(moment: dt.datetime, unit: Unit) -> Partition:
    """Return the partition of this unit that a moment, in UTC, belongs to."""
    if unit == "hour":
        return Hour(moment.date(), moment.hour)
    return Month(get_month_start(moment.date())) if unit == "month" else moment.date()


def shift_partition(partition: PartitionT, count: int) -> PartitionT:
    """Return the partition `count` months after a month, or `count` days after a day or an hour."""
    if isinstance(partition, Hour):
        return Hour(partition.day + count * DAY, partition.hour)  # type: ignore[return-value]
    if isinstance(partition, Month):
        return Month(subtract_months(partition.first, -count))  # type: ignore[return-value]
    return partition + count * DAY


def get_last_day(partition: Partition) -> dt.date:
    """Return the last day of a month, the day of an hour, or the day itself."""
    if isinstance(partition, Month):
        return get_month_start(partition.first + 31 * DAY) - DAY
    return get_date(partition)


def list_partitions(days: Days, unit: Unit) -> Iterator[Partition]:
    """Yield the partitions whose `date` is within `days`, in order. A month that begins before `days` is left out."""
    for day in days:
        if unit == "day":
            yield day
        elif unit == "hour":
            yield from (Hour(day, hour) for hour in range(24))
        elif day.day == 1:
            yield Month(day)


def list_range(first: Partition, last: Partition) -> list[Partition]:
    """List the partitions from `first` to `last`, both included and of one unit; empty if `last` is before `first`."""
    partitions = list_partitions(Days(get_date(first), get_date(last)), get_unit(first))
    return [partition for partition in partitions if first <= partition <= last]  # type: ignore[operator]
