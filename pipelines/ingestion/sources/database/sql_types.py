"""Map the types of a database to those of Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlalchemy import types

from pipelines.errors import DataError
from pipelines.ingestion.sources.timestamps import UTC

POSTGRES_TYPES: dict[str, pa.DataType] = {
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
"""Maps the names of PostgreSQL's types to Arrow's types. `numeric` is read as a decimal, or as text if it has more than
38 digits. All other types (json, uuid, arrays) are read as text."""
# The order matters: some of SQLAlchemy's types are subclasses of others.
SQLALCHEMY_TYPES: tuple[tuple[Any, pa.DataType], ...] = (
    (types.Boolean, pa.bool_()),
    (types.Integer, pa.int64()),
    (types.Float, pa.float64()),
    (types.DateTime, UTC),
    (types.Date, pa.date32()),
    (types.Time, pa.time64("us")),
    (types.LargeBinary, pa.binary()),
)
DECIMAL = pa.decimal128(38, 18)
"""Arrow's type of a `numeric` column without a precision. A value that does not fit is refused."""


def convert_postgres_type(column: Any) -> pa.DataType:
    """Return the Arrow type of a column of psycopg's `cursor.description`."""
    from psycopg.postgres import types as postgres_types

    info = postgres_types.get(column.type_code)
    # For an array, psycopg returns the type of its elements.
    name = info.name if info and info.oid == column.type_code else ""
    if name == "numeric":
        return _build_decimal_type(column.precision, column.scale)
    return POSTGRES_TYPES.get(name, pa.string())


def convert_sqlalchemy_type(data_type: Any, name: str) -> pa.DataType:
    """Return the Arrow type of a column, from the type that SQLAlchemy read from the database.

    Raises:
        DataError: SQLAlchemy found no type for the column. A retry cannot help.
    """
    if isinstance(data_type, types.NullType):
        raise DataError(f"column {name} has no type in the database.", "Declare it in columns=.")
    if isinstance(data_type, types.Numeric) and not isinstance(data_type, types.Float):
        return _build_decimal_type(data_type.precision, data_type.scale)
    return next(
        (arrow_type for sql_type, arrow_type in SQLALCHEMY_TYPES if isinstance(data_type, sql_type)), pa.string()
    )


def _build_decimal_type(precision: int | None, scale: int | None) -> pa.DataType:
    if precision is None:
        return DECIMAL
    return pa.decimal128(precision, scale or 0) if precision <= DECIMAL.precision else pa.string()
