"""A connection to a database that only reads, and what its errors mean."""

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
from pipelines.ingestion.sources.layouts import demand
from pipelines.ingestion.sources.sql_types import of_postgres, of_sqlalchemy

BATCH_ROWS = 10_000
CONNECT_S = 10
POSTGRES, SQLITE = "postgresql", "sqlite"
PASSING = re.compile(r"08|25P0[34]|40|53|55P03|57|58")
"""SQLSTATEs that may pass: connection, time-out, conflict, resources, lock, shutdown (PostgreSQL, appendix A)."""
REFUSED = re.compile(r"authentication failed|does not exist|no pg_hba.conf entry|no password supplied|not permitted")
"""What PostgreSQL says where it refuses a connection for good; psycopg 3.3 gives no SQLSTATE with it."""
BUSY = re.compile(r"locked|disk I/O error|busy")
"""The same of SQLite, where it may pass."""


def parsed(url: str, url_env: str) -> URL:
    """The database's URL, of the field or of the environment variable.

    Raises:
        SpecError: there is none, or it is none that can be used. Its text is not told: a password may be in it.
    """
    text = url or os.environ.get(url_env, "")
    name = url_env or "url="
    if not text:
        raise SpecError(f"the environment variable {name} is not set.", "It is to hold the URL of the database.")
    try:
        made = make_url(text)
    except (ArgumentError, ValueError):
        raise SpecError(
            f"{name} is no URL of a database.", "Wanted: postgresql+psycopg://USER:PASSWORD@HOST/DB."
        ) from None
    if made.get_backend_name() not in (POSTGRES, SQLITE):
        raise SpecError(f"{name}: {made.get_backend_name()} is not supported.", f"Known: {POSTGRES}+psycopg, {SQLITE}.")
    return made


def where(url: URL) -> str:
    """The database, without user and password."""
    host = f"{url.host or ''}{f':{url.port}' if url.port else ''}"
    return f"{url.get_backend_name()}://{host}/{(url.database or '').lstrip('/')}"


@contextmanager
def connected(url: URL, place: str, timezone: str) -> Iterator[Connection]:
    """A connection that only reads, gone when the block ends.

    Args:
        url: of the database.
        place: what to call it in messages.
        timezone: of the clocks that times without an offset were read from.

    Raises:
        DataError: what is asked for is not there, or is no SQL.
        SpecError: the database refuses the connection.
        ServiceError: it does not answer, or drops the connection. A retry can help.
    """
    database, postgres = url.database or "", url.get_backend_name() == POSTGRES
    if not postgres and not Path(database).is_file():
        raise DataError(f"there is no SQLite database {database}.")  # connecting would make one
    with _telling(place, url.password):
        options = {"connect_timeout": CONNECT_S} if postgres else {}
        engine = sa.create_engine(url, poolclass=NullPool, connect_args=options, hide_parameters=True)
        with engine.connect() as connection:
            if postgres:
                connection.execution_options(postgresql_readonly=True)
                connection.execute(sa.select(sa.func.set_config("TimeZone", timezone or "UTC", False)))
            yield connection


def streamed(connection: Connection, statement: Any) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of the statement, `BATCH_ROWS` at a time: the rest of them stays on the server."""
    options = {"stream_results": True, "yield_per": BATCH_ROWS}
    yield from connection.execute(statement, execution_options=options).partitions()  # type: ignore[misc]


def selectable(table: str, query: str, names: list[str]) -> Any:
    """What to select the names from: names are quoted, and nothing is formatted in."""
    columns: list[Any] = [sa.column(name) for name in names]
    if query:
        # A colon is a colon, not a parameter.
        text = sa.text(query.strip().rstrip(";").replace(":", "\\:"))
        return text.columns(*columns).subquery("rows_of_query")
    schema, _, name = table.rpartition(".")
    return sa.table(name, *columns, schema=schema or None)


def kinds_of(
    connection: Connection, table: str, query: str, declared: Mapping[str, pa.DataType] | None, place: str
) -> dict[str, pa.DataType]:
    """Column to type: those declared, else all, in the database's own types.

    Raises:
        DataError: a column is not there, or its type cannot be known.
        SpecError: the database tells no types of a query.
    """
    if connection.dialect.name == POSTGRES:
        asked = sa.select(sa.text("*")).select_from(selectable(table, query, [])).limit(0)
        cursor: Any = connection.execute(asked).cursor
        found = {one.name: of_postgres(one) for one in cursor.description}
    elif table:
        schema, _, name = table.rpartition(".")
        inspected = sa.inspect(connection).get_columns(name, schema or None)
        known = declared or {}
        found = {one["name"]: known.get(one["name"]) or of_sqlalchemy(one["type"], one["name"]) for one in inspected}
    elif declared is None:
        raise SpecError(f"{place}: SQLite tells no types of a query.", "Declare them in columns=.")
    else:
        return dict(declared)
    if declared is not None:
        demand(place, list(declared), list(found))
    return found if declared is None else dict(declared)


def primary_key(connection: Connection, table: str) -> list[str]:
    """The columns of the table's primary key; none where it has none."""
    schema, _, name = table.rpartition(".")
    return list(sa.inspect(connection).get_pk_constraint(name, schema or None)["constrained_columns"])


@contextmanager
def _telling(place: str, password: Any) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise _told(error, place, str(password or "")) from None
    except NoSuchTableError:
        raise DataError(f"{place}: there is no such table.") from None
    except (NoSuchModuleError, ModuleNotFoundError):
        raise SpecError(f"{place}: its driver is not here.", f"Known: {POSTGRES}+psycopg, {SQLITE}.") from None
    except SQLAlchemyError as error:
        raise DataError(f"{place}: {_masked(error, str(password or ''))}.") from None


def _told(error: DBAPIError, place: str, password: str) -> LeewayError:
    state, text = getattr(error.orig, "sqlstate", None) or "", _masked(error.orig, password)
    if type(error.orig).__module__.startswith("sqlite3"):
        passing = bool(BUSY.search(text))
    elif REFUSED.search(text) and (not state or state.startswith(("28", "3D"))):
        return SpecError(f"{place} refuses the connection: {text}.", "Is the URL in the environment right?")
    else:
        passing = bool(PASSING.match(state)) if state else isinstance(error, sa.exc.OperationalError)
    if passing:
        return ServiceError(f"{place} failed, or dropped the connection: {text}.", "Run it again; nothing was kept.")
    return DataError(f"{place}: {text}.", "Is the table, the query or a column named wrongly?")


def _masked(error: object, password: str) -> str:
    """The text of an error on one line, without the password where it is in it."""
    line = " ".join(str(error).split())[:300].rstrip(".")
    return line.replace(password, "***") if password else line
