"""From what a source gave to the types that were declared: wholly, or the first value that does not fit is named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DataError, SpecError
from pipelines.lake import PARTITION

UTC = pa.timestamp("us", tz="UTC")
OFFSET = r"[ T]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
"""What an ISO 8601 text ends with that says its zone."""
Ambiguous = Literal["refuse", "earliest", "latest"]


@dataclass(frozen=True)
class Zone:
    """Where the clocks of timestamps without an offset hang.

    Args:
        name: of the IANA database; empty where every timestamp has to bring its offset.
        ambiguous: what the hour that comes twice in autumn is taken for.
    """

    name: str = ""
    ambiguous: Ambiguous = "refuse"

    def __post_init__(self) -> None:
        """Refuses what is no zone."""
        try:
            ZoneInfo(self.name or "UTC")
        except (ValueError, OSError, LookupError):
            raise SpecError(f"there is no time zone {self.name!r}.", "Wanted: America/New_York, UTC, ...") from None
        if self.ambiguous not in ("refuse", "earliest", "latest"):
            raise SpecError(f"ambiguous={self.ambiguous!r} is none of refuse, earliest, latest.")


@dataclass(frozen=True)
class At:
    """Where a value stands, for messages: the place, and the number of the row that comes first."""

    place: str
    row: int = 1


class _Wrong(Exception):
    """A value that does not fit, by its index."""

    def __init__(self, index: int, why: str, hint: str = "") -> None:
        super().__init__(index, why, hint)
        self.index, self.why, self.hint = index, why, hint


def fitted(batch: pa.RecordBatch, columns: Mapping[str, pa.DataType], zone: Zone, at: At) -> pa.RecordBatch:
    """The batch with the declared columns in their types, and every other timestamp in UTC.

    Raises:
        DataError: a value does not fit: its place, row and column are named.
    """
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        kind = columns.get(name, UTC if pa.types.is_timestamp(array.type) else array.type)
        arrays.append(column(array, kind, zone, name, at))
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def column(array: pa.Array, kind: pa.DataType, zone: Zone, name: str, at: At) -> pa.Array:
    """The array in the type.

    Raises:
        DataError: a value does not fit.
    """
    try:
        return _converted(array, kind, zone)
    except _Wrong as error:
        index, why, hint = error.index, error.why, error.hint
    except (pa.ArrowException, ValueError):
        if not len(array):  # no value to name: the types alone do not fit
            hint = "Declare the column in columns=, in a type that can."
            raise DataError(f"{at.place}: column {name}: a {array.type} can be no {kind}.", hint) from None
        index = _first_wrong(array, kind, zone)
        why, hint = f"is no {kind}", ""
    raise _refusal(array[index].as_py(), name, at, index, why, hint)


def of_values(values: Sequence[Any], kind: pa.DataType | None, zone: Zone, name: str, at: At) -> pa.Array:
    """An array of Python's values; of the type that they have where `kind` is None.

    Raises:
        DataError: a value does not fit, or no one type holds them all.
    """
    if kind is not None and pa.types.is_string(kind):
        values = [one if one is None or isinstance(one, str) else _text(one) for one in values]
    elif kind is None and any(isinstance(one, (dict, list)) for one in values):
        values = [one if one is None else _text(one) for one in values]
    try:
        # Not by `kind` at once: pyarrow 25 makes 1 of 1.5, and UTC of a time without a zone.
        array = pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        array = _one_by_one(values, kind, zone, name, at)
    return column(array, kind or (UTC if pa.types.is_timestamp(array.type) else array.type), zone, name, at)


def days(array: pa.Array, name: str, at: At) -> pa.Array:
    """The day of each value: a date's own, a timestamp's in UTC.

    Raises:
        DataError: a value is missing, or has no day. A row without one would be of no partition, and vanish.
    """
    if array.null_count:
        index = pc.index(pc.is_null(array), True).as_py()
        raise _refusal(None, name, at, index, "names no day", "")
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return column(array, pa.date32(), Zone(), name, at)


def dated(batch: pa.RecordBatch, day: Any, name: str, at: At) -> pa.RecordBatch:
    """The batch with the column `date`: the day of its column `name`; `day` for every row where `name` is empty."""
    if not name:
        return batch.append_column(PARTITION, pa.repeat(pa.scalar(day, pa.date32()), batch.num_rows))
    of_rows = days(batch[name], name, at)
    if name == PARTITION:
        return batch.set_column(batch.schema.names.index(name), PARTITION, of_rows)
    if PARTITION in batch.schema.names:
        raise DataError(
            f"{at.place} has a column {PARTITION} already, and its day is to be that of {name}.",
            f'Rename it, or say day="{PARTITION}".',
        )
    return batch.append_column(PARTITION, of_rows)


def watermark(since: str, kind: pa.DataType, place: str) -> pa.Scalar:
    """The text of a cursor as a value of its type.

    Raises:
        SpecError: it is none.
    """
    try:
        return column(pa.array([since]), kind, Zone("UTC"), "since", At(place))[0]
    except DataError:
        raise SpecError(f"{place}: the watermark {since[:60]!r} is no {kind}.") from None


def _converted(array: pa.Array, kind: pa.DataType, zone: Zone) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return _utc(array, zone)
    if array.type == kind:
        return array
    if pa.types.is_boolean(kind) and pa.types.is_integer(array.type):
        bounds = pc.min_max(array).as_py()
        if not {bounds["min"], bounds["max"]} <= {0, 1, None}:
            raise pa.ArrowInvalid("neither 0 nor 1")
    if pa.types.is_boolean(array.type) and not pa.types.is_string(kind):
        raise pa.ArrowInvalid("a truth is no number")
    if pa.types.is_decimal(kind) and pa.types.is_integer(array.type):
        array = array.cast(pa.string())  # pyarrow 25 demands room for every integer, not for those that are there
    return array.cast(kind)


def _utc(array: pa.Array, zone: Zone) -> pa.Array:
    if pa.types.is_timestamp(array.type):
        return array.cast(UTC) if array.type.tz else _zoned(array.cast(pa.timestamp("us")), zone)
    if not (pa.types.is_string(array.type) or pa.types.is_null(array.type)):
        raise pa.ArrowInvalid("neither text nor a timestamp")
    text = array.cast(pa.string())
    offset = pc.fill_null(pc.match_substring_regex(text, OFFSET), False)
    missing = pa.scalar(None, pa.string())
    known = pc.if_else(offset, text, missing).cast(UTC)
    return pc.coalesce(known, _zoned(pc.if_else(offset, missing, text).cast(pa.timestamp("us")), zone))


def _zoned(naive: pa.Array, zone: Zone) -> pa.Array:
    """The moments at which the zone's clocks show the times."""
    if naive.null_count == len(naive):
        return naive.cast(UTC)
    if not zone.name:
        index = pc.index(naive.is_valid(), True).as_py()
        raise _Wrong(index, "has no time zone", "Say timezone=: that of the source's clocks.")
    first, last = (
        pc.assume_timezone(naive, zone.name, ambiguous=choice, nonexistent="earliest")
        for choice in ("earliest", "latest")
    )
    _demand_none(pc.not_equal(pc.local_timestamp(first), naive), f"is not on the clocks of {zone.name} (DST gap)")
    if zone.ambiguous == "refuse":
        hint = 'Say ambiguous="earliest" or "latest".'
        _demand_none(pc.not_equal(first, last), f"comes twice on the clocks of {zone.name}", hint)
    return (last if zone.ambiguous == "latest" else first).cast(UTC)


def _demand_none(wrong: pa.Array, why: str, hint: str = "") -> None:
    index = pc.index(pc.fill_null(wrong, False), True).as_py()
    if index >= 0:
        raise _Wrong(index, why, hint)


def _first_wrong(array: pa.Array, kind: pa.DataType, zone: Zone) -> int:
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _converted(array.slice(low, middle - low), kind, zone)
            low = middle
        except (_Wrong, pa.ArrowException, ValueError):
            high = middle
    return low


def _one_by_one(values: Sequence[Any], kind: pa.DataType | None, zone: Zone, name: str, at: At) -> pa.Array:
    """An array of values of which no one type of Python holds all."""
    arrays: list[pa.Array] = []
    for index, value in enumerate(values):
        try:
            array = pa.array([value], None if kind or not arrays else arrays[0].type)
            arrays.append(_converted(array, kind, zone) if kind else array)
        except (_Wrong, pa.ArrowException, OverflowError, ValueError, TypeError):
            wanted = f"is no {kind}" if kind else "is of another type than those before it"
            raise _refusal(value, name, at, index, wanted, "") from None
    return pa.concat_arrays(arrays)


def _text(value: Any) -> str:
    return json.dumps(value, default=str) if isinstance(value, (dict, list, bool)) else str(value)


def _refusal(value: Any, name: str, at: At, index: int, why: str, hint: str) -> DataError:
    told = "an empty value" if value is None else repr(str(value))[:80]
    return DataError(f"{at.place}: row {at.row + index}, column {name}: {told} {why}.", hint)
