"""Plan changes of a table's columns: accept added and widened columns, refuse removed and narrowed columns.

A partition that is earlier than a change may be written again with the columns from before the change. So table
properties record the earliest partition that has an added column, and the partition whose write widened a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.table import Table, Transaction

from pipelines.errors import DataError
from pipelines.lake.commits import DATE_COLUMN
from pipelines.partitions import Partition

SINCE_PREFIX, WIDE_SINCE_PREFIX = "leeway.since.", "leeway.wide-since."
"""Prefixes of table properties, each followed by the name of a column, such as leeway.since.wind_speed. The value is
the earliest partition that has the added column, or the partition whose write widened it."""
_WIDENINGS = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
"""Pairs of a type and the wider type that Iceberg can change it to."""
_ICEBERG_TYPES = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.uint8(), pa.uint16()), pa.int32()),
    **dict.fromkeys((pa.uint32(), pa.uint64()), pa.int64()),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    **dict.fromkeys((pa.large_string(), pa.string_view()), pa.string()),
    **dict.fromkeys((pa.large_binary(), pa.binary_view()), pa.binary()),
}
"""Maps types of Arrow to the types in which Iceberg stores them. `_to_iceberg_type` also converts times, timestamps,
dictionaries and nested types. All other types are stored unchanged."""


@dataclass(frozen=True)
class Evolution:
    """The changes of a table's columns by one write."""

    added: Mapping[str, pa.DataType] = field(default_factory=dict)
    widened: Mapping[str, tuple[pa.DataType, pa.DataType]] = field(default_factory=dict)
    """Maps each column to its type before and after the write."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Table properties to set; see `SINCE_PREFIX`."""

    def describe(self) -> list[str]:
        """Describe the changes, one line for each column."""
        lines = [f"added {name}: {column_type}" for name, column_type in self.added.items()]
        return lines + [
            f"widened {name}: {old_type} to {new_type}" for name, (old_type, new_type) in self.widened.items()
        ]

    def apply(self, transaction: Transaction) -> None:
        """Apply the changes to the table of the transaction."""
        new_types = {**self.added, **{name: new_type for name, (_, new_type) in self.widened.items()}}
        if new_types:
            with transaction.update_schema() as update:
                update.union_by_name(pa.schema(list(new_types.items())))
        if self.properties:
            transaction.set_properties(dict(self.properties))


def to_iceberg_schema(schema: pa.Schema, table_schema: pa.Schema | None = None) -> pa.Schema:
    """Return the schema in types that Iceberg has.

    A column of type null, which has no values, gets its type in the table; if the table lacks it, it is left out.

    Args:
        schema: schema of the rows to write.
        table_schema: schema of the table; None if there is no table.
    """
    fields = []
    for column in schema:
        column_type = _to_iceberg_type(column.type)
        if pa.types.is_null(column_type):
            if table_schema is None or column.name not in table_schema.names:
                continue
            column_type = table_schema.field(column.name).type
        fields.append(pa.field(column.name, column_type))
    return pa.schema(fields)


def plan_evolution(table: Table, schema: pa.Schema, partition: Partition) -> Evolution:
    """Plan how writing a partition changes the table's columns.

    Args:
        table: the table before the write.
        schema: schema of the partition, as `to_iceberg_schema` returns it.
        partition: the partition.

    Raises:
        DataError: columns were removed or narrowed, or changed their type; the message names them all. A retry cannot
            help.
    """
    properties = table.properties
    old_types, new_types = _map_types_by_name(table.schema().as_arrow()), _map_types_by_name(schema)
    added_types = {name: column_type for name, column_type in new_types.items() if name not in old_types}
    widened_types = {
        name: (column_type, new_types[name])
        for name, column_type in old_types.items()
        if name in new_types and _is_wider(column_type, new_types[name])
    }
    problems = [
        f"column {name} is gone"
        for name in old_types
        if name not in new_types and not _is_before(properties, SINCE_PREFIX, name, partition)
    ]
    for name, column_type in old_types.items():
        new_type = new_types.get(name, column_type)
        is_narrower = _is_wider(new_type, column_type)
        is_accepted = is_narrower and _is_before(properties, WIDE_SINCE_PREFIX, name, partition)
        if new_type == column_type or name in widened_types or is_accepted:
            continue
        change = "was narrowed" if is_narrower else "changed"
        problems.append(f"column {name} {change} from {column_type} to {new_type}")
    if problems:
        raise DataError(
            f"partition {partition} does not fit the table {table.name()[-1]}: {'; '.join(problems)}.",
            "Correct the source, or write to a new table.",
        )
    new_properties = _plan_properties(properties, partition, added_types, widened_types, new_types)
    return Evolution(added_types, widened_types, new_properties)


def plan_new_columns(table: Table, schema: pa.Schema) -> Evolution:
    """Plan to add the columns that the table lacks. A column that only the table has is null in the new rows."""
    types = _map_types_by_name(table.schema().as_arrow())
    return Evolution(
        {name: column_type for name, column_type in _map_types_by_name(schema).items() if name not in types}
    )


def _map_types_by_name(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {column.name: _to_iceberg_type(column.type) for column in schema}


def _plan_properties(
    properties: Mapping[str, str],
    partition: Partition,
    added_types: Mapping[str, pa.DataType],
    widened_types: Mapping[str, object],
    columns: Mapping[str, pa.DataType],
) -> dict[str, str]:
    """Return the table properties to set.

    The partition is recorded for each added or widened column. If a later partition is recorded for an added column,
    and this partition also has the column, this partition is recorded instead.
    """
    changes = {f"{SINCE_PREFIX}{name}": partition.isoformat() for name in added_types}
    changes |= {f"{WIDE_SINCE_PREFIX}{name}": partition.isoformat() for name in widened_types}
    earlier_partitions = {
        name: partition.isoformat()
        for name, recorded_partition in properties.items()
        if name.startswith(SINCE_PREFIX)
        and name.removeprefix(SINCE_PREFIX) in columns
        and partition.isoformat() < recorded_partition
    }
    return changes | earlier_partitions


def _is_before(properties: Mapping[str, str], prefix: str, name: str, partition: Partition) -> bool:
    """Return whether the partition is earlier than the one that a table property records for the column."""
    recorded_partition = properties.get(f"{prefix}{name}")
    return recorded_partition is not None and name != DATE_COLUMN and partition.isoformat() < recorded_partition


def _is_wider(old_type: pa.DataType, new_type: pa.DataType) -> bool:
    """Return whether `new_type` holds every value of `old_type`, and Iceberg can widen a column to it."""
    if pa.types.is_decimal(old_type) and pa.types.is_decimal(new_type):
        return bool(old_type.scale == new_type.scale and old_type.precision < new_type.precision)
    return (old_type, new_type) in _WIDENINGS


def _to_iceberg_type(column_type: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(column_type):
        return _to_iceberg_type(column_type.value_type)
    if pa.types.is_map(column_type):
        return pa.map_(_to_iceberg_type(column_type.key_type), _to_iceberg_type(column_type.item_type))
    if pa.types.is_list(column_type) or pa.types.is_large_list(column_type):
        return pa.list_(pa.field("element", _to_iceberg_type(column_type.value_type)))
    if pa.types.is_struct(column_type):
        return pa.struct([pa.field(member.name, _to_iceberg_type(member.type)) for member in column_type])
    if pa.types.is_timestamp(column_type):
        return pa.timestamp("us", tz="UTC" if column_type.tz else None)
    return pa.time64("us") if pa.types.is_time(column_type) else _ICEBERG_TYPES.get(column_type, column_type)
