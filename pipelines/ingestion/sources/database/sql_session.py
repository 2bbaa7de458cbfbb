"""Connect to a database for reading, and translate its errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, NoSuchTableError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from pipelines.errors import DataError, LeewayError, ServiceError, SpecError
from pipelines.ingestion.sources.database.sql_types import convert_postgres_type, convert_sqlalchemy_type
from pipelines.ingestion.sources.layouts import check_columns

BATCH_ROWS = 10_000
"""Number of rows that are read at a time."""
CONNECT_S = 10
"""Longest time to wait for a connection to PostgreSQL, seconds."""
POSTGRES, SQLITE = "postgresql", "sqlite"
TRANSIENT_STATES = re.compile(r"08|25P0[34]|40|53|55P03|57|58")
"""Beginnings of the SQLSTATEs of transient errors: connection, time-out, conflict, resources, lock, shutdown
(PostgreSQL, appendix A)."""
REFUSED_MESSAGES = re.compile(
    r"authentication failed|does not exist|no pg_hba.conf entry|no password supplied|not permitted"
)
"""Messages of PostgreSQL when it refuses a connection and a retry cannot help; psycopg 3.3 gives most of these errors
without a SQLSTATE."""
BUSY_MESSAGES = re.compile(r"locked|disk I/O error|busy")
"""SQLite's messages for transient errors."""


def parse_url(url: str, url_env: str) -> URL:
    """Parse the URL of a database.

    Args:
        url: the URL; empty if the environment variable `url_env` holds it.
        url_env: name of the environment variable.

    Raises:
        SpecError: there is no URL, or it cannot be used. The message does not show the URL, which may hold a password.
            A retry cannot help.
    """
    text = url or os.environ.get(url_env, "")
    name = url_env or "url="
    if not text:
        raise SpecError(f"the environment variable {name} is not set.", "It must hold the URL of the database.")
    try:
        database_url = make_url(text)
    except (ArgumentError, ValueError):
        raise SpecError(f"{name} is not a database URL.", "Use postgresql+psycopg://USER:PASSWORD@HOST/DB.") from None
    if database_url.get_backend_name() not in (POSTGRES, SQLITE):
        raise SpecError(
            f"{name}: {database_url.get_backend_name()} is not supported.", f"Use one of: {POSTGRES}+psycopg, {SQLITE}."
        )
    return database_url


def describe_url(url: URL) -> str:
    """Return the address of the database, without user and password."""
    host = f"{url.host or ''}{f':{url.port}' if url.port else ''}"
    return f"{url.get_backend_name()}://{host}/{(url.database or '').lstrip('/')}"


@contextmanager
def connect(url: URL, origin: str, timezone: str) -> Iterator[Connection]:
    """Open a connection for reading; close it when the block ends. PostgreSQL would refuse writes, SQLite would not.

    Args:
        url: URL of the database.
        origin: name of the database, for messages.
        timezone: time zone in which PostgreSQL reads a timestamp without an offset, such as to compare it with one that
            has an offset; empty: UTC.

    Raises:
        DataError: the SQLite file, a table or a column does not exist, or the query is not valid. A retry cannot help.
        SpecError: the database refuses the connection, or its driver is not installed. A retry cannot help.
        ServiceError: the database does not answer, or drops the connection. A retry can help.
    """
    database, is_postgres = url.database or "", url.get_backend_name() == POSTGRES
    if not is_postgres and not Path(database).is_file():
        # SQLite would create the file.
        raise DataError(f"there is no SQLite database {database}.", "Correct the path in the database's URL.")
    with _translate_errors(origin, url.password):
        options = {"connect_timeout": CONNECT_S} if is_postgres else {}
        engine = sa.create_engine(url, poolclass=NullPool, connect_args=options, hide_parameters=True)
        with engine.connect() as connection:
            if is_postgres:
                connection.execution_options(postgresql_readonly=True)
                # False: for the whole session, not only for the current transaction.
                connection.execute(sa.select(sa.func.set_config("TimeZone", timezone or "UTC", False)))
            yield connection


def stream_rows(connection: Connection, statement: Any) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of the statement, `BATCH_ROWS` at a time; PostgreSQL keeps the other rows on the server."""
    options = {"stream_results": True, "yield_per": BATCH_ROWS}
    yield from connection.execute(statement, execution_options=options).partitions()  # type: ignore[misc]


def build_selectable(table: str, query: str, names: list[str]) -> Any:
    """Return a table or a query from which the columns `names` can be selected.

    SQLAlchemy quotes the names, so that they cannot inject SQL.
    """
    columns: list[Any] = [sa.column(name) for name in names]
    if query:
        # Colons are escaped: SQLAlchemy would read `:name` as a parameter.
        text = sa.text(query.strip().rstrip(";").replace(":", "\\:"))
        return text.columns(*columns).subquery("rows_of_query")
    schema, _, name = table.rpartition(".")
    return sa.table(name, *columns, schema=schema or None)


def find_types(
    connection: Connection, table: str, query: str, declared_types: Mapping[str, pa.DataType] | None, origin: str
) -> dict[str, pa.DataType]:
    """Return `declared_types`, or the database's types of all columns if it is None.

    The declared columns of a query in SQLite are not checked.

    Raises:
        DataError: a declared column does not exist; or a column of an SQLite table has no type, and is not declared. A
            retry cannot help.
        SpecError: the types of a query in SQLite are not declared. A retry cannot help.
    """
    if connection.dialect.name == POSTGRES:
        statement = sa.select(sa.text("*")).select_from(build_selectable(table, query, [])).limit(0)
        cursor: Any = connection.execute(statement).cursor
        types = {column.name: convert_postgres_type(column) for column in cursor.description}
    elif table:
        schema, _, name = table.rpartition(".")
        overrides = declared_types or {}
        columns = sa.inspect(connection).get_columns(name, schema or None)
        types = {
            column["name"]: overrides.get(column["name"]) or convert_sqlalchemy_type(column["type"], column["name"])
            for column in columns
        }
    elif declared_types is None:
        raise SpecError(f"{origin}: SQLite does not know the types of a query.", "Declare them in columns=.")
    else:
        return dict(declared_types)
    if declared_types is not None:
        check_columns(origin, list(declared_types), list(types))
    return types if declared_types is None else dict(declared_types)


def find_primary_key(connection: Connection, table: str) -> list[str]:
    """Return the columns of the table's primary key; empty if it has none."""
    schema, _, name = table.rpartition(".")
    return list(sa.inspect(connection).get_pk_constraint(name, schema or None)["constrained_columns"])


@contextmanager
def _translate_errors(origin: str, password: Any) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise _translate_driver_error(error, origin, str(password or "")) from None
    except NoSuchTableError:
        raise DataError(f"{origin}: there is no such table.") from None
    except (NoSuchModuleError, ModuleNotFoundError):
        raise SpecError(
            f"{origin}: its driver is not installed.", f"Use one of: {POSTGRES}+psycopg, {SQLITE}."
        ) from None
    except SQLAlchemyError as error:
        raise DataError(f"{origin}: {_mask_password(error, str(password or ''))}.") from None


def _translate_driver_error(error: DBAPIError, origin: str, password: str) -> LeewayError:
    state, text = getattr(error.orig, "sqlstate", None) or "", _mask_password(error.orig, password)
    if type(error.orig).__module__.startswith("sqlite3"):
        is_transient = bool(BUSY_MESSAGES.search(text))
    elif REFUSED_MESSAGES.search(text) and (not state or state.startswith(("28", "3D"))):
        return SpecError(f"{origin} refuses the connection: {text}.", "Check the URL in the environment.")
    else:
        is_transient = bool(TRANSIENT_STATES.match(state)) if state else isinstance(error, sa.exc.OperationalError)
    if is_transient:
        return ServiceError(f"{origin} failed, or dropped the connection: {text}.", "Run it again; nothing was stored.")
    return DataError(f"{origin}: {text}.", "Check the names of the table and columns, and the query.")


def _mask_password(error: object, password: str) -> str:
    """Return the text of an error on one line, without the password."""
    line = " ".join(str(error).split())[:300].rstrip(".")
    return line.replace(password, "***") if password else line
