"""Map the types of a database to those of Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlalchemy import types

from pipelines.errors import DataError
from pipelines.ingestion.sources.timestamps import UTC

POSTGRES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    **dict.fromkeys(("int2", "int4"), pa.int32()),
    **dict.fromkeys(("int8", "oid"), pa.int64()),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    **dict.fromkeys(("timestamp", "timestamptz"), UTC),
    "bytea": pa.binary(),
}
"""PostgreSQL's name of a type to Arrow's; all other types (json, uuid, arrays) are read as text."""
# The order matters: some of SQLAlchemy's types are subclasses of others.
KINDS: tuple[tuple[Any, pa.DataType], ...] = (
    (types.Boolean, pa.bool_()),
    (types.Integer, pa.int64()),
    (types.Float, pa.float64()),
    (types.DateTime, UTC),
    (types.Date, pa.date32()),
    (types.Time, pa.time64("us")),
    (types.LargeBinary, pa.binary()),
)
DECIMAL = pa.decimal128(38, 18)
"""Type of a numeric without a precision; a value that does not fit is refused."""


def from_postgres(column: Any) -> pa.DataType:
    """Return the type of a column of psycopg's `cursor.description`."""
    from psycopg.postgres import types as postgres_types

    info = postgres_types.get(column.type_code)
    name = info.name if info and info.oid == column.type_code else ""  # psycopg returns the element type of an array
    if name == "numeric":
        return _build_decimal_type(column.precision, column.scale)
    return POSTGRES.get(name, pa.string())


def from_sqlalchemy(kind: Any, name: str) -> pa.DataType:
    """Return the type of a column that SQLAlchemy found in a table.

    Raises:
        DataError: the column has no type. A retry cannot help.
    """
    if isinstance(kind, types.NullType):
        raise DataError(f"column {name} has no type in the database.", "Declare it in columns=.")
    if isinstance(kind, types.Numeric) and not isinstance(kind, types.Float):
        return _build_decimal_type(kind.precision, kind.scale)
    return next((arrow for sql, arrow in KINDS if isinstance(kind, sql)), pa.string())


def _build_decimal_type(precision: int | None, scale: int | None) -> pa.DataType:
    if precision is None:
        return DECIMAL
    return pa.decimal128(precision, scale or 0) if precision <= 38 else pa.string()
