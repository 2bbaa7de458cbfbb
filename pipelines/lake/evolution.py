"""Plan changes of a table's columns: accept added and widened columns, refuse removed and narrowed columns.

A partition of a day before a change may still be written with the columns that the table had then. So table properties
record the first partition that has an added column, and the first partition that has a widened column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.table import Table, Transaction

from pipelines.errors import DataError
from pipelines.lake.commits import PARTITION
from pipelines.partitions import Partition

SINCE_PREFIX, WIDE_SINCE_PREFIX = "leeway.since.", "leeway.wide-since."
"""Table properties, each followed by a column: the first partition that has the column, or has its wide type."""
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
"""Type in Arrow to the type that Iceberg stores it in; other types are stored unchanged."""


@dataclass(frozen=True)
class Evolution:
    """The changes of a table's columns by one write."""

    added: Mapping[str, pa.DataType] = field(default_factory=dict)
    widened: Mapping[str, tuple[pa.DataType, pa.DataType]] = field(default_factory=dict)
    """Column to its type before and after."""
    since: Mapping[str, str] = field(default_factory=dict)
    """Table properties to set: the first partition that has a column, or has its wide type."""

    def describe(self) -> list[str]:
        """Describe the changes, one line for each column."""
        lines = [f"added {name}: {kind}" for name, kind in self.added.items()]
        return lines + [f"widened {name}: {old} to {new}" for name, (old, new) in self.widened.items()]

    def apply(self, transaction: Transaction) -> None:
        """Apply the changes to the table of the transaction."""
        new_types = {**self.added, **{name: new for name, (_, new) in self.widened.items()}}
        if new_types:
            with transaction.update_schema() as update:
                update.union_by_name(pa.schema(list(new_types.items())))
        if self.since:
            transaction.set_properties(dict(self.since))


def to_iceberg_schema(schema: pa.Schema, table_schema: pa.Schema | None = None) -> pa.Schema:
    """Return the schema in types that Iceberg has.

    A column without any value gets its type in the table, or is left out if the table lacks the column.

    Args:
        schema: schema of the rows to write.
        table_schema: schema of the table; None if there is no table.
    """
    fields = []
    for column in schema:
        kind = _to_iceberg_type(column.type)
        if pa.types.is_null(kind):
            if table_schema is None or column.name not in table_schema.names:
                continue
            kind = table_schema.field(column.name).type
        fields.append(pa.field(column.name, kind))
    return pa.schema(fields)


def plan_evolution(table: Table, schema: pa.Schema, day: Partition) -> Evolution:
    """Plan how writing a partition changes the table's columns.

    Args:
        table: the table before the write.
        schema: schema of the partition, as `to_iceberg_schema` returns it.
        day: the partition.

    Raises:
        DataError: columns were removed or narrowed, or changed their type; the message names them all. A retry cannot
            help.
    """
    properties = table.properties
    old_types, new_types = _map_types_by_name(table.schema().as_arrow()), _map_types_by_name(schema)
    added = {name: kind for name, kind in new_types.items() if name not in old_types}
    widened = {
        name: (kind, new_types[name])
        for name, kind in old_types.items()
        if name in new_types and _is_wider(kind, new_types[name])
    }
    problems = [
        f"column {name} is gone"
        for name in old_types
        if name not in new_types and not _is_before(properties, SINCE_PREFIX, name, day)
    ]
    for name, kind in old_types.items():
        new_kind = new_types.get(name, kind)
        is_narrower = _is_wider(new_kind, kind)
        is_accepted = is_narrower and _is_before(properties, WIDE_SINCE_PREFIX, name, day)
        if new_kind == kind or name in widened or is_accepted:
            continue
        problems.append(f"column {name} {'was narrowed' if is_narrower else 'changed'} from {kind} to {new_kind}")
    if problems:
        raise DataError(
            f"partition {day} does not fit the table {table.name()[-1]}: {'; '.join(problems)}.",
            "Correct the source, or write to a new table.",
        )
    return Evolution(added, widened, _plan_properties(properties, day, added, widened, new_types))


def plan_new_columns(table: Table, schema: pa.Schema) -> Evolution:
    """Plan to add the columns that the table lacks. A column that the schema lacks is null in its rows."""
    types = _map_types_by_name(table.schema().as_arrow())
    return Evolution({name: kind for name, kind in _map_types_by_name(schema).items() if name not in types})


def _map_types_by_name(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {column.name: _to_iceberg_type(column.type) for column in schema}


def _plan_properties(
    properties: Mapping[str, str],
    day: Partition,
    added: Mapping[str, pa.DataType],
    widened: Mapping[str, object],
    columns: Mapping[str, pa.DataType],
) -> dict[str, str]:
    """Return the properties to set: for added and widened columns, and for added columns that this earlier day has."""
    changes = {f"{SINCE_PREFIX}{name}": day.isoformat() for name in added}
    changes |= {f"{WIDE_SINCE_PREFIX}{name}": day.isoformat() for name in widened}
    earlier_days = {
        name: day.isoformat()
        for name, first_day in properties.items()
        if name.startswith(SINCE_PREFIX) and name.removeprefix(SINCE_PREFIX) in columns and day.isoformat() < first_day
    }
    return changes | earlier_days


def _is_before(properties: Mapping[str, str], prefix: str, name: str, day: Partition) -> bool:
    """Return whether the day is before the first partition that a property records for the column."""
    first_day = properties.get(f"{prefix}{name}")
    return first_day is not None and name != PARTITION and day.isoformat() < first_day


def _is_wider(old_type: pa.DataType, new_type: pa.DataType) -> bool:
    """Return whether `new_type` holds every value of `old_type`, and Iceberg can widen a column to it."""
    if pa.types.is_decimal(old_type) and pa.types.is_decimal(new_type):
        return bool(old_type.scale == new_type.scale and old_type.precision < new_type.precision)
    return (old_type, new_type) in _WIDENINGS


def _to_iceberg_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _to_iceberg_type(kind.value_type)
    if pa.types.is_map(kind):
        return pa.map_(_to_iceberg_type(kind.key_type), _to_iceberg_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _to_iceberg_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(member.name, _to_iceberg_type(member.type)) for member in kind])
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    return pa.time64("us") if pa.types.is_time(kind) else _ICEBERG_TYPES.get(kind, kind)
