"""Check that each value in rows of features has the type that the model's signature gives to its feature."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pipelines.container.serving.tables import BadRequest, Table

Types = Mapping[str, str]
"""Maps each feature to the name of its type, in the order of the model's signature."""
MAX_FLOAT32 = (2 - 2**-23) * 2.0**127
"""Largest finite 32-bit float."""


def list_named_values(
    table: Table, types: Types, ignored_columns: Collection[str] = (), hint: str = ""
) -> list[list[Any]]:
    """Return the values of rows with column names, in the order of the model's features.

    Args:
        table: rows of a request.
        types: maps each feature to its type.
        ignored_columns: other columns that a row may have. They are not read.
        hint: end of the message if a row lacks a feature or has an unknown column.

    Raises:
        BadRequest: a row lacks a feature, has an unknown column, or a value of another type. The message names row and
            column.
    """
    values = []
    for row_number, row in enumerate(table.rows, 1):
        if missing_names := [name for name in types if name not in row]:
            problem = f"row {row_number} lacks the columns {', '.join(missing_names)}: send every feature of the model"
            raise BadRequest(problem + hint)
        if unknown_names := [name for name in row if name not in types and name not in ignored_columns]:
            names = ", ".join(unknown_names)
            raise BadRequest(f"row {row_number} has columns that are not features of the model: {names}" + hint)
        values.append([_convert(row[name], types[name], name, row_number, table.is_text) for name in types])
    return values


def list_unnamed_values(rows: Sequence[Sequence[Any]], types: Types) -> list[list[Any]]:
    """Return the values of rows that are lists without column names, in the order of the model's features.

    Raises:
        BadRequest: a row has more or fewer values than there are features, or a value of another type. The message
            names the row, and the columns that it lacks or that has the wrong type.
    """
    values = []
    for row_number, row in enumerate(rows, 1):
        if missing_names := list(types)[len(row) :]:
            raise BadRequest(
                f"row {row_number} has {len(row)} values, and lacks the columns {', '.join(missing_names)}"
            )
        if len(row) > len(types):
            raise BadRequest(f"row {row_number} has {len(row)} values, but the model has {len(types)} features")
        pairs = zip(row, types.items(), strict=True)
        values.append(
            [_convert(value, type_name, name, row_number, is_text=False) for value, (name, type_name) in pairs]
        )
    return values


def check_float32_range(columns: Mapping[str, Sequence[Any]]) -> None:
    """Check that every number is in the range of a 32-bit float. Call it to explain why a model failed to score rows.

    Args:
        columns: maps each feature to its values, one for each row.

    Raises:
        BadRequest: a number is too large. The message names row and column.
    """
    for name, values in columns.items():
        for row_number, value in enumerate(values, 1):
            if isinstance(value, int | float) and abs(value) > MAX_FLOAT32:
                raise BadRequest(f"row {row_number}, column {name}: {value:.6g} is too large for the model")


def _convert(value: Any, type_name: str, column: str, row_number: int, is_text: bool) -> Any:
    if value is None or (is_text and value == ""):
        if type_name in ("double", "float", "string"):
            return None
        raise BadRequest(f"row {row_number}, column {column}: a {type_name} must not be missing")
    convert = _CONVERTERS.get(type_name)
    if convert is None:  # MLflow checks values of all other types
        return value
    try:
        return convert(_parse_text(value, type_name) if is_text else value)
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"row {row_number}, column {column}: {str(value)[:50]!r} is not a {type_name}") from error


def _parse_text(text: str, type_name: str) -> Any:
    if "_" in text and type_name not in ("string", "boolean"):  # Python accepts 1_000
        raise ValueError("not a number")
    if type_name in ("double", "float"):
        return float(text)
    if type_name in ("long", "integer"):
        return int(text)
    return {"true": True, "false": False}.get(text.lower(), text) if type_name == "boolean" else text


def _to_double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("not a finite number")
    return float(value)


def _to_float(value: Any) -> float:
    number = _to_double(value)
    if abs(number) > MAX_FLOAT32:
        raise ValueError("too large for 32 bits")
    return number


def _to_integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError("not an integer in the range")
    return value


def _to_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
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
