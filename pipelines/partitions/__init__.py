"""Define partitions, the unit in which rows are ingested, validated, published and scored: hours, days or months."""

from pipelines.partitions.keys import (
    HOUR_COLUMN,
    Hour,
    Month,
    Partition,
    PartitionKey,
    PartitionT,
    check_partition,
    get_date,
    get_unit,
    parse_partition,
    refuse_monthly_partitions,
)
from pipelines.partitions.ranges import (
    find_partition,
    get_begin,
    get_end,
    get_last_day,
    list_partitions,
    list_range,
    shift_partition,
)

__all__ = [
    "HOUR_COLUMN",
    "Hour",
    "Month",
    "Partition",
    "PartitionKey",
    "PartitionT",
    "check_partition",
    "find_partition",
    "get_begin",
    "get_date",
    "get_end",
    "get_last_day",
    "get_unit",
    "list_partitions",
    "list_range",
    "parse_partition",
    "refuse_monthly_partitions",
    "shift_partition",
]
