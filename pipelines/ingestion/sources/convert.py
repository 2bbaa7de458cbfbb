"""Convert the values of a source to the declared types. An error names the first value that does not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources.timestamps import UTC, Ambiguous, BadValueError, Zone, to_utc
from pipelines.lake import DATE_COLUMN

__all__ = [
    "UTC",
    "Ambiguous",
    "Position",
    "Zone",
    "add_day_column",
    "build_array",
    "convert_batch",
    "convert_column",
    "parse_cursor",
    "to_days",
]


@dataclass(frozen=True)
class Position:
    """The position of a batch in its source, for messages."""

    origin: str
    """File, page or table of the batch."""
    row: int = 1
    """Number of the batch's first row, from 1."""


def convert_batch(
    batch: pa.RecordBatch, columns: Mapping[str, pa.DataType], zone: Zone, position: Position
) -> pa.RecordBatch:
    """Return the batch with the declared columns in their types, and every other timestamp in UTC.

    Raises:
        DataError: a value, or the type of a column without values, does not fit; the message names the origin, the
            column and the row of the value. A retry cannot help.
    """
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        data_type = columns.get(name, UTC if pa.types.is_timestamp(array.type) else array.type)
        arrays.append(convert_column(array, data_type, zone, name, position))
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def convert_column(array: pa.Array, data_type: pa.DataType, zone: Zone, name: str, position: Position) -> pa.Array:
    """Return the array in another type.

    Raises:
        DataError: a value, or the type of the array, does not fit. A retry cannot help.
    """
    try:
        return _convert(array, data_type, zone)
    except BadValueError as error:
        index, problem, hint = error.index, error.problem, error.hint
    except (pa.ArrowException, ValueError):
        if not len(array):  # there is no value to name: the types themselves do not fit
            hint = "Declare the column in columns=, in a type that fits."
            raise DataError(
                f"{position.origin}: column {name}: cannot convert {array.type} to {data_type}.", hint
            ) from None
        index = _find_first_bad_value(array, data_type, zone)
        problem, hint = f"is not of type {data_type}", ""
    raise _build_bad_value_error(array[index].as_py(), name, position, index, problem, hint)


def build_array(
    values: Sequence[Any], data_type: pa.DataType | None, zone: Zone, name: str, position: Position
) -> pa.Array:
    """Build an array of Python values; infer its type if `data_type` is None.

    If the type is text, or is inferred and a value is an object or a list, all values become texts: objects, lists and
    booleans in JSON.

    Raises:
        DataError: a value does not fit, or no single type fits all values. A retry cannot help.
    """
    if data_type is not None and pa.types.is_string(data_type):
        values = [value if value is None or isinstance(value, str) else _to_text(value) for value in values]
    elif data_type is None and any(isinstance(value, (dict, list)) for value in values):
        values = [value if value is None else _to_text(value) for value in values]
    try:
        # The type is inferred first: with `data_type`, pyarrow 25 truncates 1.5 to 1 and reads a time without a zone as
        # UTC.
        array = pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        array = _build_value_by_value(values, data_type, zone, name, position)
    data_type = data_type or (UTC if pa.types.is_timestamp(array.type) else array.type)
    return convert_column(array, data_type, zone, name, position)


def to_days(array: pa.Array, name: str, position: Position) -> pa.Array:
    """Return the day of each value. A timestamp with a time zone gives its day in UTC; one without gives its own day.

    Raises:
        DataError: a value is missing, or has no day: its row would belong to no partition. A retry cannot help.
    """
    if array.null_count:
        index = pc.index(pc.is_null(array), True).as_py()
        raise _build_bad_value_error(None, name, position, index, problem="names no day", hint="")
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return convert_column(array, pa.date32(), Zone(), name, position)


def add_day_column(batch: pa.RecordBatch, day: Any, name: str, position: Position) -> pa.RecordBatch:
    """Return the batch with the column `date`.

    Args:
        batch: rows of a source.
        day: day of all rows; used only if `name` is empty.
        name: column that gives the day of each row; empty if `day` is the day of all rows.
        position: position of the batch in its source.

    Raises:
        DataError: a row has no day, or the batch has another column `date`. A retry cannot help.
    """
    if not name:
        return batch.append_column(DATE_COLUMN, pa.repeat(pa.scalar(day, pa.date32()), batch.num_rows))
    days = to_days(batch[name], name, position)
    if name == DATE_COLUMN:
        return batch.set_column(batch.schema.names.index(name), DATE_COLUMN, days)
    if DATE_COLUMN in batch.schema.names:
        raise DataError(
            f"{position.origin} has a column {DATE_COLUMN}, but the day is to come from the column {name}.",
            f'Rename it, or set day="{DATE_COLUMN}".',
        )
    return batch.append_column(DATE_COLUMN, days)


def parse_cursor(text: str, data_type: pa.DataType, origin: str) -> pa.Scalar:
    """Convert a watermark, which is a text, to the type of the cursor.

    Raises:
        SpecError: the text does not fit the type. A retry cannot help.
    """
    try:
        return convert_column(pa.array([text]), data_type, Zone("UTC"), "since", Position(origin))[0]
    except DataError:
        message = f"{origin}: the watermark {text[:60]!r} is not of type {data_type}."
        raise SpecError(message, "Give a value of the source's cursor.") from None


def _convert(array: pa.Array, data_type: pa.DataType, zone: Zone) -> pa.Array:
    """Return the array in another type; refuse some values that pyarrow would convert."""
    if pa.types.is_timestamp(data_type):
        return to_utc(array, zone)
    if array.type == data_type:
        return array
    if pa.types.is_boolean(data_type) and pa.types.is_integer(array.type):
        bounds = pc.min_max(array).as_py()
        if not {bounds["min"], bounds["max"]} <= {0, 1, None}:
            raise pa.ArrowInvalid("neither 0 nor 1")
    if pa.types.is_boolean(array.type) and not pa.types.is_string(data_type):
        raise pa.ArrowInvalid("a boolean is not a number")
    if pa.types.is_decimal(data_type) and pa.types.is_integer(array.type):
        array = array.cast(pa.string())  # pyarrow 25 casts integers only to decimals that can hold any integer
    return array.cast(data_type)


def _find_first_bad_value(array: pa.Array, data_type: pa.DataType, zone: Zone) -> int:
    """Find the index of the first value that cannot be converted, by bisection."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _convert(array.slice(low, middle - low), data_type, zone)
            low = middle
        except (BadValueError, pa.ArrowException, ValueError):
            high = middle
    return low


def _build_value_by_value(
    values: Sequence[Any], data_type: pa.DataType | None, zone: Zone, name: str, position: Position
) -> pa.Array:
    """Build an array of values that pyarrow cannot convert together; refuse the first value that does not fit."""
    arrays: list[pa.Array] = []
    inferred_type: pa.DataType | None = None  # the type of the first value that is not None
    for index, value in enumerate(values):
        try:
            array = pa.array([value], inferred_type)
            arrays.append(_convert(array, data_type, zone) if data_type else array)
            if data_type is None and value is not None:
                inferred_type = array.type
        except (BadValueError, pa.ArrowException, OverflowError, ValueError, TypeError):
            problem = f"is not of type {data_type}" if data_type else "is of another type than the values before it"
            raise _build_bad_value_error(value, name, position, index, problem, hint="") from None
    return pa.concat_arrays([array.cast(data_type or inferred_type) for array in arrays])


def _to_text(value: Any) -> str:
    return json.dumps(value, default=str) if isinstance(value, (dict, list, bool)) else str(value)


def _build_bad_value_error(value: Any, name: str, position: Position, index: int, problem: str, hint: str) -> DataError:
    text = "an empty value" if value is None else repr(str(value))[:80]
    return DataError(f"{position.origin}: row {position.row + index}, column {name}: {text} {problem}.", hint)
