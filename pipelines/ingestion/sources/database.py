"""SqlSource and SqlChanges: rows of a database, through a cursor that stays on the server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources import sql_session
from pipelines.ingestion.sources.convert import Ambiguous, At, Zone, dated, of_values, watermark
from pipelines.ingestion.sources.sql_session import SQLITE
from pipelines.lake import PARTITION
from pipelines.source import Description
from pipelines.window import DAY, Days

Kinds = dict[str, pa.DataType]


@dataclass(frozen=True)
class _Sql:
    """The rows of a table or query. Nothing is written to the database.

    Args:
        table: name, or SCHEMA.NAME; or
        query: a SELECT, without parameters.
        url: SQLAlchemy's (postgresql+psycopg://..., sqlite:///...); or, as it holds a password,
        url_env: the environment variable that holds it.
        day: column that says which day a row is of: a date, or a timestamp (its day in UTC). Rows without are of none.
        columns: column to type, where not all of them are wanted, or not in the database's own types.
        order_by: columns that order the rows; the primary key where none are given.
        timezone: of timestamps that bring no offset: a name of the IANA database.
        ambiguous: what the hour that comes twice in autumn is taken for.
    """

    table: str = ""
    query: str = field(default="", repr=False)
    url: str = field(default="", repr=False)
    url_env: str = ""
    day: str = PARTITION
    columns: Mapping[str, pa.DataType] | None = None
    order_by: Sequence[str] = ()
    timezone: str = ""
    ambiguous: Ambiguous = "refuse"

    def __post_init__(self) -> None:
        """Refuses what could not be read."""
        if bool(self.table) == bool(self.query) or bool(self.url) == bool(self.url_env):
            raise SpecError(f"{type(self).__name__}: one of table= and query= is wanted, and one of url= and url_env=.")
        if self.columns is not None and self.day not in self.columns:
            raise SpecError(f"{type(self).__name__}: the column {self.day}, which is to say the day, is not declared.")
        Zone(self.timezone, self.ambiguous)

    def describe(self) -> Description:
        """Its database, without user and password, and declared columns."""
        place = f"the database of {self.url_env}: {self.table or 'query'}" if self.url_env else self._place
        return Description("database", place, self.columns or {})

    @property
    def _url(self) -> URL:
        return sql_session.parsed(self.url, self.url_env)

    @property
    def _place(self) -> str:
        return f"{sql_session.where(self._url)}: {self.table or 'query'}"

    def _connected(self) -> AbstractContextManager[Connection]:
        return sql_session.connected(self._url, self._place, self.timezone)

    def _kinds(self, connection: Connection) -> Kinds:
        kinds = sql_session.kinds_of(connection, self.table, self.query, self.columns, self._place)
        if self.day not in kinds:
            raise DataError(f"{self._place} lacks the column {self.day}, which is to say the day.")
        return kinds

    def _rows(self, kinds: Kinds) -> Any:
        return sql_session.selectable(self.table, self.query, list(kinds))

    def _order(self, connection: Connection, rows: Any) -> list[Any]:
        """What the rows are sorted by: equal rows in another order would look changed."""
        names = self.order_by or (sql_session.primary_key(connection, self.table) if self.table else ())
        if not names:
            raise SpecError(f"{self._place} has no primary key.", "Say order_by=: equal rows must come alike.")
        return [rows.c[name] if name in rows.c else sa.column(name) for name in names]

    def _schema(self, kinds: Kinds) -> pa.Schema:
        empty = pa.RecordBatch.from_pylist([], schema=pa.schema(list(kinds.items())))
        made: pa.Schema = dated(empty, None, self.day, At(self._place)).schema
        return made

    def _batches(self, connection: Connection, kinds: Kinds, statement: Any) -> Iterator[pa.RecordBatch]:
        row, zone = 1, Zone(self.timezone, self.ambiguous)
        for rows in sql_session.streamed(connection, statement):
            at = At(self._place, row)
            columns = zip(kinds.items(), zip(*rows, strict=True), strict=True)
            arrays = [of_values(values, kind, zone, name, at) for (name, kind), values in columns]
            yield dated(pa.RecordBatch.from_arrays(arrays, names=list(kinds)), None, self.day, at)
            row += len(rows)


@dataclass(frozen=True)
class SqlSource(_Sql):
    """The rows of a table or query, by the day; see `_Sql` for the fields."""

    def partitions(self, days: Days) -> list[dt.date]:
        """Those of the days that have rows.

        Raises:
            DataError: there is no such table or column. A retry cannot help.
            ServiceError: the database does not answer. A retry can help.
        """
        with self._connected() as connection:
            kind = self._kinds(connection)[self.day]
            found = self._days(connection, kind, days)
        return sorted(day for day in found if days.first <= day <= days.last)

    def read(self, partition: dt.date) -> pa.RecordBatchReader:
        """The rows of the day, in order: those of one moment, as one statement reads them.

        Raises:
            DataError: a table or column is not there, or a value does not fit; from the reader too.
            ServiceError: the database does not answer, or drops the connection; from the reader too.
        """
        with self._connected() as connection:
            kinds = self._kinds(connection)
        return pa.RecordBatchReader.from_batches(self._schema(kinds), self._of_day(partition, kinds))

    def _of_day(self, day: dt.date, kinds: Kinds) -> Iterator[pa.RecordBatch]:
        with self._connected() as connection:
            rows = self._rows(kinds)
            within = _within(rows.c[self.day], kinds[self.day], Days(day, day), connection)
            asked = sa.select(*rows.c).where(*within).order_by(*self._order(connection, rows))
            for batch in self._batches(connection, kinds, asked):
                # SQLite was asked for a day more on both sides.
                own = batch.filter(pc.equal(batch[PARTITION], pa.scalar(day)))
                if own.num_rows:
                    yield own

    def _days(self, connection: Connection, kind: pa.DataType, days: Days) -> set[dt.date]:
        rows = self._rows({self.day: kind})
        column = rows.c[self.day]
        within = _within(column, kind, days, connection)
        if connection.dialect.name != SQLITE and not pa.types.is_date(kind):
            moment = sa.cast(column, sa.TIMESTAMP(timezone=True))
            column = sa.cast(sa.func.timezone("UTC", moment), sa.Date).label(self.day)
            kind = pa.date32()
        asked = sa.select(column).where(*within).distinct()
        batches = self._batches(connection, {self.day: kind}, asked)
        return {day for batch in batches for day in pc.unique(batch[PARTITION]).to_pylist()}


@dataclass(frozen=True)
class SqlChanges(_Sql):
    """The rows of a table or query that came or changed since; see `_Sql` for the fields.

    Args:
        cursor: column that only grows: a sequence, or a moment of change. A row that is committed later than one with
            a larger cursor is missed, as is one without a cursor.
    """

    cursor: str = ""

    def __post_init__(self) -> None:
        """Refuses what could not be read."""
        super().__post_init__()
        if not self.cursor or (self.columns is not None and self.cursor not in self.columns):
            raise SpecError(f"SqlChanges: cursor={self.cursor!r} is not one of the columns.")

    def changes(self, since: str | None) -> pa.RecordBatchReader:
        """The rows whose cursor is beyond `since`, all where it is None, in the order of the cursor.

        Raises:
            DataError: a table or column is not there, or a value does not fit; from the reader too.
            SpecError: `since` is no value of the cursor.
            ServiceError: the database does not answer, or drops the connection; from the reader too.
        """
        with self._connected() as connection:
            kinds = self._kinds(connection)
        if self.cursor not in kinds:
            raise DataError(f"{self._place} lacks the column {self.cursor}, the cursor.")
        beyond = None if since is None else watermark(since, kinds[self.cursor], self._place)
        return pa.RecordBatchReader.from_batches(self._schema(kinds), self._beyond(beyond, kinds))

    def _beyond(self, since: pa.Scalar | None, kinds: Kinds) -> Iterator[pa.RecordBatch]:
        with self._connected() as connection:
            rows = self._rows(kinds)
            cursor = rows.c[self.cursor]
            asked = sa.select(*rows.c).where(cursor.is_not(None))
            if since is not None:
                asked = asked.where(cursor > _bound(since.as_py(), connection, -DAY))
            for batch in self._batches(connection, kinds, asked.order_by(cursor, *self._order(connection, rows))):
                own = batch if since is None else batch.filter(pc.greater(batch[self.cursor], since))
                if own.num_rows:
                    yield own


def _within(column: Any, kind: pa.DataType, days: Days, connection: Connection) -> tuple[Any, Any]:
    """The conditions that the column's day is one of the days; a day more on both sides for timestamps in SQLite."""
    if pa.types.is_date(kind):
        first, after = (_bound(one, connection) for one in (days.first, days.last + DAY))
    else:
        midnight = dt.time(tzinfo=dt.UTC)
        first = _bound(dt.datetime.combine(days.first, midnight), connection, -DAY)
        after = _bound(dt.datetime.combine(days.last + DAY, midnight), connection, DAY)
    return column >= first, column < after


def _bound(value: Any, connection: Connection, margin: dt.timedelta = DAY) -> Any:
    """The value, to be compared with a column.

    PostgreSQL compares a moment with any kind of timestamp, by the session's time zone. SQLite compares texts, in
    whatever form they are: so a `margin` is left, and the rest is done when the values are known.
    """
    if connection.dialect.name != SQLITE or not isinstance(value, dt.date):
        return value
    return (value + margin).date().isoformat() if isinstance(value, dt.datetime) else value.isoformat()
