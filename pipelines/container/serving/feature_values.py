"""Check the values of rows of features: each has the type that the model's signature names for its feature."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pipelines.container.serving.tables import BadRequest, Table

Types = Mapping[str, str]
"""Feature to the name of its type, in the order of the model's signature."""
LARGEST = (2 - 2**-23) * 2.0**127
"""Largest number of 32 bits."""


def list_named_values(table: Table, types: Types, ignored: Collection[str] = (), hint: str = "") -> list[list[Any]]:
    """Return the values of each row by column name, in the order of the features.

    Args:
        table: rows of a request.
        types: features with their types.
        ignored: other columns that a row may have. They are not read.
        hint: end of the message if a row has other columns.

    Raises:
        BadRequest: a row lacks a feature, has an unknown column, or a value of another type. The message names row and
            column.
    """
    values = []
    for number, row in enumerate(table.rows, 1):
        if missing := [name for name in types if name not in row]:
            problem = f"row {number} lacks the columns {', '.join(missing)}: send every feature of the model"
            raise BadRequest(problem + hint)
        if unknown := [name for name in row if name not in types and name not in ignored]:
            raise BadRequest(f"row {number} has columns that are no features of the model: {', '.join(unknown)}" + hint)
        values.append([_convert(row[name], types[name], name, number, table.is_text) for name in types])
    return values


def list_unnamed_values(rows: Sequence[Sequence[Any]], types: Types) -> list[list[Any]]:
    """Return the values of each row without names, which has the values in the order of the features.

    Raises:
        BadRequest: a row has more or fewer values than there are features, or a value of another type. The message
            names row and column.
    """
    values = []
    for number, row in enumerate(rows, 1):
        if missing := list(types)[len(row) :]:
            raise BadRequest(f"row {number} has {len(row)} values, and lacks the columns {', '.join(missing)}")
        if len(row) > len(types):
            raise BadRequest(f"row {number} has {len(row)} values, but the model has {len(types)} features")
        pairs = zip(row, types.items(), strict=True)
        values.append([_convert(value, type_name, name, number, is_text=False) for value, (name, type_name) in pairs])
    return values


def check_sizes(columns: Mapping[str, Sequence[Any]]) -> None:
    """Check that no number needs more than 32 bits: many models cannot score one. Call it if a model has failed.

    Args:
        columns: feature to the value of each row.

    Raises:
        BadRequest: a number is too large. The message names row and column.
    """
    for name, values in columns.items():
        for number, value in enumerate(values, 1):
            if isinstance(value, int | float) and abs(value) > LARGEST:
                raise BadRequest(f"row {number}, column {name}: {value:.6g} is too large for the model")


def _convert(value: Any, type_name: str, column: str, number: int, is_text: bool) -> Any:
    if value is None or (is_text and value == ""):
        if type_name in ("double", "float", "string"):
            return None
        raise BadRequest(f"row {number}, column {column}: a {type_name} must not be missing")
    convert = _CONVERTERS.get(type_name)
    if convert is None:  # MLflow checks it
        return value
    try:
        return convert(_parse_text(value, type_name) if is_text else value)
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"row {number}, column {column}: {str(value)[:50]!r} is not a {type_name}") from error


def _parse_text(text: str, type_name: str) -> Any:
    if type_name in ("double", "float"):
        return float(text)
    if type_name in ("long", "integer"):
        return int(text)
    return {"true": True, "false": False}.get(text.lower(), text) if type_name == "boolean" else text


def _to_double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("no finite number")
    return float(value)


def _to_float(value: Any) -> float:
    number = _to_double(value)
    if abs(number) > LARGEST:
        raise ValueError("too large for 32 bits")
    return number


def _to_integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError("no integer in the range")
    return value


def _to_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    value.encode()  # raises a ValueError for a lone surrogate, which JSON can express
    return value


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "double": _to_double,
    "float": _to_float,
    "long": lambda value: _to_integer(value, 64),
    "integer": lambda value: _to_integer(value, 32),
    "boolean": _to_boolean,
    "string": _to_text,
}
