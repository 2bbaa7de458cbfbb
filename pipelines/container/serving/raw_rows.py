"""Check the rows of a request against the columns of the dataset's rows."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.container.serving.tables import BadRequest, Table

MAX_VALUE_CHARS = 50
"""Largest number of characters of a wrong value that an error shows."""


class ValueRule(NamedTuple):
    """Which values a column accepts."""

    name: str
    """The accepted values, in error messages."""
    check: Callable[[Any], Any]
    """Returns the converted value; raises a ValueError for a value that is not accepted."""
    parse: Callable[[str], Any]
    """Parses a text, such as a value in a CSV body. `check` then gets the result."""


class RawRows:
    """Checks the rows of requests: which columns they may have and must have, and the types of the values.

    Args:
        row_schema: schema of the published rows.
        key: columns of the key: if a row has one, its value must not be missing.
        known_later: columns that are known only after the prediction: no row may have them.
        required: columns that the features are computed from: each row must have them.
        optional: other columns whose values are returned, too, if all rows have them.
    """

    def __init__(
        self,
        row_schema: pa.Schema,
        key: Collection[str],
        known_later: Collection[str],
        required: Sequence[str],
        optional: Sequence[str] = (),
    ) -> None:
        self.required = tuple(required)
        self._optional = [name for name in optional if name not in self.required]
        self._known_later = frozenset(known_later)
        self._rules = {
            field.name: _find_rule(field.type) for field in row_schema if field.name not in self._known_later
        }
        self._key = frozenset(key)

    def convert(self, table: Table) -> Mapping[str, Sequence[Any]]:
        """Return the values of each required column, and of the optional ones that all rows have.

        Raises:
            BadRequest: a row lacks a required column, has a column that is unknown or known only later, has a value of
                another type, or has a missing value in its key. The message names row and column.
        """
        optional = [name for name in self._optional if all(name in row for row in table.rows)]
        columns: dict[str, list[Any]] = {name: [] for name in (*self.required, *optional)}
        for number, row in enumerate(table.rows, 1):
            self._check_names(row, number)
            for name, value in row.items():
                checked_value = self._convert_value(name, value, number, table.is_text)
                if name in columns:
                    columns[name].append(checked_value)
        return columns

    def _check_names(self, row: Collection[str], number: int) -> None:
        if missing_names := [name for name in self.required if name not in row]:
            raise BadRequest(f"row {number} lacks the columns {', '.join(missing_names)}: send missing values as null")
        if unknown_names := [name for name in row if name not in self._rules]:
            known_later = [name for name in unknown_names if name in self._known_later]
            problem = "columns that are not known before the prediction" if known_later else "unknown columns"
            names = ", ".join(name[:MAX_VALUE_CHARS] for name in (known_later or unknown_names)[:5])
            raise BadRequest(f"row {number} has {problem}: {names}. The columns of a row are {', '.join(self._rules)}")

    def _convert_value(self, name: str, value: Any, number: int, is_text: bool) -> Any:
        if value is None or (is_text and value == ""):
            if name in self._key:
                raise BadRequest(f"row {number}, column {name}: a value of the key must not be missing")
            return None
        rule = self._rules[name]
        try:
            return rule.check(rule.parse(value) if is_text else value)
        except (ValueError, OverflowError, ArithmeticError):
            short_text = str(value)[:MAX_VALUE_CHARS]
            raise BadRequest(f"row {number}, column {name}: {short_text!r} is not {rule.name}") from None


def _find_rule(arrow_type: pa.DataType) -> ValueRule:
    """Return what a column of an Arrow type accepts. A type without a rule of its own accepts what Arrow accepts."""
    rules: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[], ValueRule]]] = (
        (pa.types.is_integer, lambda: _make_integer_rule(arrow_type)),
        (pa.types.is_floating, lambda: ValueRule("a finite number", _check_float, _parse_number(float))),
        (
            pa.types.is_boolean,
            lambda: ValueRule("true or false", lambda value: _check_type(value, bool), _parse_boolean),
        ),
        (pa.types.is_string, lambda: ValueRule("a text", _check_text, str)),
        (pa.types.is_large_string, lambda: ValueRule("a text", _check_text, str)),
        (pa.types.is_date, lambda: ValueRule("a date (YYYY-MM-DD)", _check_date, str)),
        (pa.types.is_timestamp, lambda: _make_time_rule(arrow_type)),
        (pa.types.is_decimal, lambda: ValueRule(f"a {arrow_type}", lambda value: _to_decimal(value, arrow_type), str)),
    )
    default_rule = ValueRule(f"a {arrow_type}", lambda value: pa.scalar(value, arrow_type).as_py(), str)
    return next((make_rule() for is_type, make_rule in rules if is_type(arrow_type)), default_rule)


def _make_integer_rule(arrow_type: pa.DataType) -> ValueRule:
    low, high = _find_range(arrow_type)
    return ValueRule(
        f"a whole number ({arrow_type})", lambda value: _check_integer(value, low, high), _parse_number(int)
    )


def _make_time_rule(arrow_type: pa.DataType) -> ValueRule:
    has_zone = arrow_type.tz is not None
    offset = "with" if has_zone else "without"
    return ValueRule(f"a time {offset} an offset (ISO 8601)", lambda value: _check_time(value, has_zone), str)


def _find_range(arrow_type: pa.DataType) -> tuple[int, int]:
    bits = arrow_type.bit_width
    is_signed = pa.types.is_signed_integer(arrow_type)
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)


def _check_integer(value: Any, low: int, high: int) -> int:
    """Return the value as a whole number in the range. JSON has only one type of numbers, so 5.0 is accepted."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError("not a whole number in the range")
    return value


def _check_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("not a finite number")
    return float(value)


def _to_decimal(value: Any, arrow_type: pa.DataType) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError("not a number")
    return pa.scalar(Decimal(str(value)), arrow_type).as_py()


def _check_type(value: Any, expected_type: type) -> Any:
    if not isinstance(value, expected_type):
        raise ValueError("another type")
    return value


def _check_text(value: Any) -> str:
    text: str = _check_type(value, str)
    text.encode()  # raises a ValueError for a lone surrogate, which JSON can express
    return text


def _check_date(value: Any) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    return dt.date.fromisoformat(_check_type(value, str))


def _check_time(value: Any, has_zone: bool) -> dt.datetime:
    if hasattr(value, "to_pydatetime"):  # Arrow returns nanoseconds as a type of pandas
        value = value.to_pydatetime(warn=False)
    time = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(_check_type(value, str))
    if (time.utcoffset() is not None) != has_zone:
        raise ValueError("the offset from UTC is missing or not expected")
    return time


def _parse_number(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if "_" in text:  # Python accepts 1_000
            raise ValueError("not a number")
        return convert(text)

    return parse


def _parse_boolean(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text.lower(), text)
