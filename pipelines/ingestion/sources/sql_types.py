"""From the types of a database to those of Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlalchemy import types

from pipelines.errors import DataError
from pipelines.ingestion.sources.convert import UTC

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
"""PostgreSQL's name to the type; what is not here, json, uuid and arrays too, is read as text."""
# In this order: SQLAlchemy's kinds are subclasses of one another.
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
"""Of a numeric that says no precision: a value that does not fit is refused."""


def of_postgres(column: Any) -> pa.DataType:
    """The type of a column of psycopg's `cursor.description`."""
    from psycopg.postgres import types as known

    found = known.get(column.type_code)
    name = found.name if found and found.oid == column.type_code else ""  # an array is found by its element
    if name == "numeric":
        return _decimal(column.precision, column.scale)
    return POSTGRES.get(name, pa.string())


def of_sqlalchemy(kind: Any, name: str) -> pa.DataType:
    """The type of a column that SQLAlchemy found in a table.

    Raises:
        DataError: the column has no type.
    """
    if isinstance(kind, types.NullType):
        raise DataError(f"column {name} has no type in the database.", "Declare it in columns=.")
    if isinstance(kind, types.Numeric) and not isinstance(kind, types.Float):
        return _decimal(kind.precision, kind.scale)
    return next((found for one, found in KINDS if isinstance(kind, one)), pa.string())


def _decimal(precision: int | None, scale: int | None) -> pa.DataType:
    if precision is None:
        return DECIMAL
    return pa.decimal128(precision, scale or 0) if precision <= 38 else pa.string()
