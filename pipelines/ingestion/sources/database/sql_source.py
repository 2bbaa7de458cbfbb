"""Read the rows of a database in batches: by day (SqlSource), or by cursor (SqlChanges)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources.convert import Ambiguous, Position, Zone, add_day_column, build_array, parse_cursor
from pipelines.ingestion.sources.database import sql_session
from pipelines.ingestion.sources.database.sql_session import SQLITE
from pipelines.lake import DATE_COLUMN
from pipelines.source import Description
from pipelines.window import DAY, Days, Unit

Types = dict[str, pa.DataType]
"""Maps each column to its type."""


@dataclass(frozen=True)
class _SqlRows:
    """The rows of a table or query. The database is only read.

    Args:
        table: name of the table, or SCHEMA.NAME. Either this or `query` is given.
        query: a SELECT without parameters.
        url: address of the database, as SQLAlchemy writes it (postgresql+psycopg://..., sqlite:///...). Either this or
            `url_env` is given.
        url_env: name of the environment variable that holds the address. For addresses with a password.
        day: column that gives the day of a row: a date, or a timestamp (its day in UTC). If it is null, SqlSource skips
            the row, and SqlChanges raises an error.
        columns: type of each column, by the column's name. Set it to read only these columns, or to read them as other
            types than the database's.
        order_by: columns that sort the rows; by default, the primary key of the table. Required for a query.
        timezone: time zone of timestamps without an offset, by its name in the IANA database; empty: they are refused.
        ambiguous: how to read times of the hour that occurs twice in autumn.
    """

    table: str = ""
    query: str = field(default="", repr=False)
    url: str = field(default="", repr=False)
    url_env: str = ""
    day: str = DATE_COLUMN
    columns: Mapping[str, pa.DataType] | None = None
    order_by: Sequence[str] = ()
    timezone: str = ""
    ambiguous: Ambiguous = "refuse"

    def __post_init__(self) -> None:
        """Refuse fields that contradict each other.

        Raises:
            SpecError: the message names the fields. A retry cannot help.
        """
        if bool(self.table) == bool(self.query) or bool(self.url) == bool(self.url_env):
            raise SpecError(f"{type(self).__name__}: give either table= or query=, and either url= or url_env=.")
        if self.columns is not None and self.day not in self.columns:
            raise SpecError(
                f"{type(self).__name__}: the column {self.day}, which gives the day of a row, is not declared."
            )
        Zone(self.timezone, self.ambiguous)

    def describe(self) -> Description:
        """Return the database, without user and password, and the declared columns."""
        origin = f"the database of {self.url_env}: {self.table or 'query'}" if self.url_env else self._origin
        return Description("database", origin, self.columns or {})

    @property
    def _url(self) -> URL:
        return sql_session.parse_url(self.url, self.url_env)

    @property
    def _origin(self) -> str:
        return f"{sql_session.describe_url(self._url)}: {self.table or 'query'}"

    def _connect(self) -> AbstractContextManager[Connection]:
        return sql_session.connect(self._url, self._origin, self.timezone)

    def _find_types(self, connection: Connection) -> Types:
        types = sql_session.find_types(connection, self.table, self.query, self.columns, self._origin)
        if self.day not in types:
            raise DataError(f"{self._origin} lacks the column {self.day}, which gives the day of a row.")
        return types

    def _build_selectable(self, types: Types) -> Any:
        return sql_session.build_selectable(self.table, self.query, list(types))

    def _list_sort_columns(self, connection: Connection, rows: Any) -> list[Any]:
        """Return the columns to sort the rows by. Without a fixed order, unchanged rows would look changed."""
        names = self.order_by or (sql_session.find_primary_key(connection, self.table) if self.table else ())
        if not names:
            raise SpecError(
                f"{self._origin} has no primary key.",
                "Set order_by=, so that the same rows always come in the same order.",
            )
        return [rows.c[name] if name in rows.c else sa.column(name) for name in names]

    def _build_schema(self, types: Types) -> pa.Schema:
        empty_batch = pa.RecordBatch.from_pylist([], schema=pa.schema(list(types.items())))
        schema: pa.Schema = add_day_column(empty_batch, day=None, name=self.day, position=Position(self._origin)).schema
        return schema

    def _read_batches(self, connection: Connection, types: Types, statement: Any) -> Iterator[pa.RecordBatch]:
        row, zone = 1, Zone(self.timezone, self.ambiguous)
        for rows in sql_session.stream_rows(connection, statement):
            position = Position(self._origin, row)
            columns = zip(types.items(), zip(*rows, strict=True), strict=True)
            arrays = [build_array(values, data_type, zone, name, position) for (name, data_type), values in columns]
            batch = pa.RecordBatch.from_arrays(arrays, names=list(types))
            yield add_day_column(batch, day=None, name=self.day, position=position)
            row += len(rows)


@dataclass(frozen=True)
class SqlSource(_SqlRows):
    """The rows of a table or query, by day. For the fields see `_SqlRows`."""

    partition: ClassVar[Unit] = "day"

    def list_partitions(self, days: Days) -> list[dt.date]:
        """List the days within `days` that have rows.

        Raises:
            DataError: the table or a column does not exist, or a value of `day` does not fit its type. A retry cannot
                help.
            SpecError: `columns` is not set for a query in SQLite; the URL is missing or wrong; or the database refuses
                the connection. A retry cannot help.
            ServiceError: the database does not answer. A retry can help.
        """
        with self._connect() as connection:
            data_type = self._find_types(connection)[self.day]
            days_with_rows = self._find_days(connection, data_type, days)
        return sorted(day for day in days_with_rows if days.first <= day <= days.last)

    def read(self, partition: dt.date) -> pa.RecordBatchReader:
        """Read the rows of one day, sorted, in a single statement.

        Raises:
            DataError: a table or column does not exist, or a value does not fit the type of its column. Raised here or
                while the returned reader is read. A retry cannot help.
            SpecError: `order_by` is not set for a query, or for a table without a primary key; `columns` is not set for
                a query in SQLite; the URL is missing or wrong; or the database refuses the connection. Raised here or
                while the returned reader is read. A retry cannot help.
            ServiceError: the database does not answer, or drops the connection. Raised here or while the returned
                reader is read. A retry can help.
        """
        with self._connect() as connection:
            types = self._find_types(connection)
        return pa.RecordBatchReader.from_batches(self._build_schema(types), self._read_day(partition, types))

    def _read_day(self, day: dt.date, types: Types) -> Iterator[pa.RecordBatch]:
        with self._connect() as connection:
            rows = self._build_selectable(types)
            conditions = _build_day_conditions(rows.c[self.day], types[self.day], Days(day, day), connection)
            statement = sa.select(*rows.c).where(*conditions).order_by(*self._list_sort_columns(connection, rows))
            for batch in self._read_batches(connection, types, statement):
                # In SQLite, the query also returns the day before and the day after: see `_build_day_conditions`.
                rows_of_day = batch.filter(pc.equal(batch[DATE_COLUMN], pa.scalar(day)))
                if rows_of_day.num_rows:
                    yield rows_of_day

    def _find_days(self, connection: Connection, data_type: pa.DataType, days: Days) -> set[dt.date]:
        rows = self._build_selectable({self.day: data_type})
        column = rows.c[self.day]
        conditions = _build_day_conditions(column, data_type, days, connection)
        if connection.dialect.name != SQLITE and not pa.types.is_date(data_type):
            timestamp = sa.cast(column, sa.TIMESTAMP(timezone=True))
            column = sa.cast(sa.func.timezone("UTC", timestamp), sa.Date).label(self.day)
            data_type = pa.date32()
        statement = sa.select(column).where(*conditions).distinct()
        batches = self._read_batches(connection, {self.day: data_type}, statement)
        return {day for batch in batches for day in pc.unique(batch[DATE_COLUMN]).to_pylist()}


@dataclass(frozen=True)
class SqlChanges(_SqlRows):
    """New and changed rows of a table or query, incremental by cursor. For the other fields see `_SqlRows`.

    Args:
        cursor: column whose values only grow: a sequence, or the time of the change. A row is missed if it has no
            cursor, or if it is committed after a row with a larger cursor was read.
    """

    cursor: str = ""

    def __post_init__(self) -> None:
        """Refuse a source without a cursor and, if `columns` is set, a cursor that is not one of them.

        Raises:
            SpecError: a retry cannot help.
        """
        super().__post_init__()
        if not self.cursor or (self.columns is not None and self.cursor not in self.columns):
            raise SpecError(f"SqlChanges: cursor={self.cursor!r} is not one of the columns.")

    def read_changes(self, since: str | None) -> pa.RecordBatchReader:
        """Read the rows whose cursor is greater than `since`, ordered by cursor; all rows if `since` is None.

        Raises:
            DataError: a table or column does not exist, or a value does not fit the type of its column. Raised here or
                while the returned reader is read. A retry cannot help.
            SpecError: as `SqlSource.read`; or `since` is not a value of the cursor. A retry cannot help.
            ServiceError: the database does not answer, or drops the connection. Raised here or while the returned
                reader is read. A retry can help.
        """
        with self._connect() as connection:
            types = self._find_types(connection)
        if self.cursor not in types:
            raise DataError(f"{self._origin} lacks the column {self.cursor}, the cursor.")
        last_cursor = None if since is None else parse_cursor(since, types[self.cursor], self._origin)
        return pa.RecordBatchReader.from_batches(self._build_schema(types), self._read_new_rows(last_cursor, types))

    def _read_new_rows(self, since: pa.Scalar | None, types: Types) -> Iterator[pa.RecordBatch]:
        with self._connect() as connection:
            rows = self._build_selectable(types)
            cursor = rows.c[self.cursor]
            statement = sa.select(*rows.c).where(cursor.is_not(None))
            if since is not None:
                statement = statement.where(cursor > _to_bound(since.as_py(), connection, -DAY))
            statement = statement.order_by(cursor, *self._list_sort_columns(connection, rows))
            for batch in self._read_batches(connection, types, statement):
                new_rows = batch if since is None else batch.filter(pc.greater(batch[self.cursor], since))
                if new_rows.num_rows:
                    yield new_rows


def _build_day_conditions(column: Any, data_type: pa.DataType, days: Days, connection: Connection) -> tuple[Any, Any]:
    """Return the conditions that select the rows of `days`.

    For timestamps in SQLite, the conditions also select the day before and the day after.
    """
    if pa.types.is_date(data_type):
        lower, upper = (_to_bound(day, connection) for day in (days.first, days.last + DAY))
    else:
        midnight = dt.time(tzinfo=dt.UTC)
        lower = _to_bound(dt.datetime.combine(days.first, midnight), connection, -DAY)
        upper = _to_bound(dt.datetime.combine(days.last + DAY, midnight), connection, DAY)
    return column >= lower, column < upper


def _to_bound(value: Any, connection: Connection, margin: dt.timedelta = DAY) -> Any:
    """Return a date, a timestamp or another value in a form that the database can compare with a column.

    PostgreSQL compares a timestamp with columns of any timestamp type, in the session's time zone. SQLite compares
    texts, and the format of the column's texts is not known. So for SQLite `margin` is added to a timestamp, and the
    caller filters the rows again after reading them. For PostgreSQL, and for dates, `margin` has no effect.
    """
    if connection.dialect.name != SQLITE or not isinstance(value, dt.date):
        return value
    return (value + margin).date().isoformat() if isinstance(value, dt.datetime) else value.isoformat()
