"""How a table's columns may change: it takes in what is added or wider, and refuses what is removed or narrower.

A partition from before a change may still be as it was then, so the table remembers since which partition a column
is there, and since which it is wide.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.table import Table, Transaction

from pipelines.errors import DataError
from pipelines.lake.commits import PARTITION

SINCE, WIDE_SINCE = "leeway.since.", "leeway.wide-since."
_WIDER = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
_ICEBERG_TYPES = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.uint8(), pa.uint16()), pa.int32()),
    **dict.fromkeys((pa.uint32(), pa.uint64()), pa.int64()),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    **dict.fromkeys((pa.large_string(), pa.string_view()), pa.string()),
    **dict.fromkeys((pa.large_binary(), pa.binary_view()), pa.binary()),
}


@dataclass(frozen=True)
class Evolution:
    """What a partition does to its table's columns."""

    added: Mapping[str, pa.DataType] = field(default_factory=dict)
    widened: Mapping[str, tuple[pa.DataType, pa.DataType]] = field(default_factory=dict)
    """Column to its type before and after."""
    since: Mapping[str, str] = field(default_factory=dict)
    """Table properties to set."""

    def describe(self) -> list[str]:
        """What is to be told, a line each."""
        told = [f"added {name}: {kind}" for name, kind in self.added.items()]
        return told + [f"widened {name}: {old} to {new}" for name, (old, new) in self.widened.items()]

    def apply(self, transaction: Transaction) -> None:
        """The transaction's table has the columns."""
        kinds = {**self.added, **{name: new for name, (_, new) in self.widened.items()}}
        if kinds:
            with transaction.update_schema() as update:
                update.union_by_name(pa.schema(list(kinds.items())))
        if self.since:
            transaction.set_properties(dict(self.since))


def to_iceberg_schema(schema: pa.Schema, known: pa.Schema | None = None) -> pa.Schema:
    """The schema in types that Iceberg has; a column of which no value is known is as the table has it, or left out.

    Args:
        schema: of what is to be written.
        known: of the table, where there is one.
    """
    fields = []
    for one in schema:
        kind = _to_iceberg_type(one.type)
        if pa.types.is_null(kind):
            if known is None or one.name not in known.names:
                continue
            kind = known.field(one.name).type
        fields.append(pa.field(one.name, kind))
    return pa.schema(fields)


def plan_evolution(table: Table, schema: pa.Schema, day: dt.date) -> Evolution:
    """What writing a partition of `schema` does to the table's columns.

    Args:
        table: as it is.
        schema: the partition's, `plain`.
        day: the partition.

    Raises:
        DataError: a column was removed, is narrower, or has another type: all of them are named.
    """
    known, properties = table.schema().as_arrow(), table.properties
    had, has = ({one.name: _to_iceberg_type(one.type) for one in columns} for columns in (known, schema))
    added = {name: kind for name, kind in has.items() if name not in had}
    widened = {name: (old, has[name]) for name, old in had.items() if name in has and _is_wider(old, has[name])}
    wrong = [
        f"column {name} is gone" for name in had if name not in has and not _is_before(properties, SINCE, name, day)
    ]
    for name, old in had.items():
        new = has.get(name, old)
        if new == old or name in widened or (_is_wider(new, old) and _is_before(properties, WIDE_SINCE, name, day)):
            continue
        wrong.append(f"column {name} {'was narrowed' if _is_wider(new, old) else 'changed'} from {old} to {new}")
    if wrong:
        raise DataError(
            f"partition {day} does not fit the table {table.name()[-1]}: {'; '.join(wrong)}.",
            "Mend the source, or write to a new table.",
        )
    return Evolution(added, widened, _plan_properties(properties, day, added, widened, has))


def _plan_properties(
    properties: Mapping[str, str],
    day: dt.date,
    added: Mapping[str, pa.DataType],
    widened: Mapping[str, object],
    has: Mapping[str, pa.DataType],
) -> dict[str, str]:
    """The marks to set: of what is new, and of what turns out to be there since an earlier day."""
    marks = {f"{SINCE}{name}": day.isoformat() for name in added}
    marks |= {f"{WIDE_SINCE}{name}": day.isoformat() for name in widened}
    earlier = {
        name: day.isoformat()
        for name, moment in properties.items()
        if name.startswith(SINCE) and name.removeprefix(SINCE) in has and day.isoformat() < moment
    }
    return marks | earlier


def _is_before(properties: Mapping[str, str], mark: str, name: str, day: dt.date) -> bool:
    moment = properties.get(f"{mark}{name}")
    return moment is not None and name != PARTITION and day.isoformat() < moment


def _is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether `new` holds every value of `old`, and Iceberg lets a column become it."""
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(old.scale == new.scale and old.precision < new.precision)
    return (old, new) in _WIDER


def _to_iceberg_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _to_iceberg_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _to_iceberg_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _to_iceberg_type(one.type)) for one in kind])
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if pa.types.is_time(kind):
        return pa.time64("us")
    return _ICEBERG_TYPES.get(kind, kind)
