"""Read the rows of an HTTP JSON API page by page: by day (HttpSource), or by cursor (HttpChanges)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources.addresses import redact
from pipelines.ingestion.sources.convert import Ambiguous, Position, Zone, add_day_column, build_array, parse_cursor
from pipelines.ingestion.sources.dates import DATE_PLACEHOLDER, fill_date
from pipelines.ingestion.sources.layouts import Extra, Layout, check_columns
from pipelines.ingestion.sources.web.pages import OnePage, Pages
from pipelines.ingestion.sources.web.records import MAX_BYTES, RecordReader, Records
from pipelines.lake import DATE_COLUMN
from pipelines.source import Description
from pipelines.window import Days, Unit

Types = dict[str, pa.DataType]
"""Maps each column to its type."""


@dataclass(frozen=True)
class _HttpRows:
    """The rows of an HTTP JSON API. After a transient failure the request is retried; the API may say after how long.

    Args:
        url: http:// or https://. For HttpSource, it may contain {date} or {date:%Y/%m/%d}.
        params: parameters of the query. For HttpSource, their values may contain {date}.
        rows: dotted path to the list of rows in a page, such as `data.items`; empty if the page is the list.
        pages: how the rows are paged: OnePage, PageNumber, Offset, CursorToken or LinkHeader.
        columns: maps each required column to its type. Every value must fit its type. Timestamps are converted to UTC.
        extra: `take`: other columns are read too, in types inferred from the first page; `ignore`: they are not read.
        day: column that gives the day of a row (a date, or a timestamp: its day in UTC). By default, the column `date`.
            If there is none, all rows that HttpSource gets are of the requested day; HttpChanges raises an error.
        headers_env: maps the name of a header to the environment variable that holds its value, so that no secret is in
            the code.
        rate_per_s: largest number of requests per second; None for no limit.
        timezone: time zone of timestamps without an offset, by its name in the IANA database; empty: they are refused.
        ambiguous: how to read times of the hour that occurs twice in autumn.
        max_bytes: largest size of a page, in bytes.
    """

    url: str = field(repr=False)
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    rows: str = ""
    pages: Pages = field(default_factory=OnePage)
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    extra: Extra = "take"
    day: str = ""
    headers_env: Mapping[str, str] = field(default_factory=dict)
    rate_per_s: float | None = None
    timezone: str = ""
    ambiguous: Ambiguous = "refuse"
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        """Refuse an address that is not HTTP, and an unknown time zone.

        Raises:
            SpecError: the message names the field. A retry cannot help.
        """
        if not self.url.startswith(("http://", "https://")):
            raise SpecError(
                f"{redact(self.url)[:100]} is not the address of an API.", "It must begin with https:// or http://."
            )
        Zone(self.timezone, self.ambiguous)

    def describe(self) -> Description:
        """Return the address, without secrets, and the declared columns."""
        return Description("API", redact(self.url), self.columns)

    def _open_reader(self, url: str, params: Mapping[str, str], day: dt.date | None) -> pa.RecordBatchReader:
        batches = self._read_batches(url, params, day)
        first_batch = next(batches, None)
        if first_batch is None:
            # Without rows, no type can be inferred. So columns that are not declared are left out, except for the day's
            # column, which gets the type of a date.
            types = dict(self.columns)
            if self.day or day is None:
                types.setdefault(self.day or DATE_COLUMN, pa.date32())
            empty_batch = pa.RecordBatch.from_pylist([], schema=pa.schema(list(types.items())))
            day_column = self._get_day_column(types, day)
            schema = add_day_column(empty_batch, day, day_column, Position(redact(url))).schema
            return pa.RecordBatchReader.from_batches(schema, iter(()))
        return pa.RecordBatchReader.from_batches(first_batch.schema, chain([first_batch], batches))

    def _read_batches(self, url: str, params: Mapping[str, str], day: dt.date | None) -> Iterator[pa.RecordBatch]:
        types: Types = {}
        zone, row = Zone(self.timezone, self.ambiguous), 1
        has_decimals = any(pa.types.is_decimal(data_type) for data_type in self.columns.values())
        reader = RecordReader(self.rows, self.pages, self.headers_env, self.rate_per_s, self.max_bytes, has_decimals)
        for records in reader.read(url, params):
            if not records:
                continue
            position = Position(redact(url), row)
            names = list(dict.fromkeys(chain.from_iterable(records)))
            types = types or self._choose_types(records, names, zone, position)
            new_columns = [name for name in names if name not in types]
            if new_columns and self.extra == "take":
                page = f"the page that begins with row {row}"
                problem = f"{position.origin}: {page} has a column {new_columns[0]} that the first page lacks."
                raise DataError(problem, "Declare it in columns=.")
            arrays = [
                build_array([record.get(name) for record in records], data_type, zone, name, position)
                for name, data_type in types.items()
            ]
            batch = pa.RecordBatch.from_arrays(arrays, names=list(types))
            yield add_day_column(batch, day, self._get_day_column(types, day), position)
            row += len(records)

    def _choose_types(self, records: Records, names: list[str], zone: Zone, position: Position) -> Types:
        """Return the type of each column: the declared type, or the type that the values of the first page have."""
        check_columns(position.origin, list(self.columns), names)
        types = dict(self.columns)
        for name in Layout(self.columns, self.extra).list_undeclared_columns(names):
            data_type = build_array(
                [record.get(name) for record in records], data_type=None, zone=zone, name=name, position=position
            ).type
            if pa.types.is_null(data_type):
                data_type = pa.string()
            types[name] = pa.float64() if pa.types.is_decimal(data_type) else data_type
        return types

    def _has_date(self) -> bool:
        return any(DATE_PLACEHOLDER.search(text) for text in (self.url, *self.params.values()))

    def _get_day_column(self, types: Mapping[str, pa.DataType], day: dt.date | None) -> str:
        """Return the column that gives the day of a row; empty if `day` is the day of all rows."""
        name = self.day or (DATE_COLUMN if DATE_COLUMN in types or day is None else "")
        if name and name not in types:
            raise DataError(f"{redact(self.url)} lacks the column {name}, which gives the day of a row.")
        return name


@dataclass(frozen=True)
class HttpSource(_HttpRows):
    """The rows of an HTTP JSON API by day: {date} is in its address or parameters. For the fields see `_HttpRows`."""

    partition: ClassVar[Unit] = "day"

    def __post_init__(self) -> None:
        """Refuse a source without {date}.

        Raises:
            SpecError: a retry cannot help.
        """
        super().__post_init__()
        if not self._has_date():
            problem = f"{redact(self.url)}: neither the address nor params= has {{date}}."
            raise SpecError(problem, "Write {date} where the API expects the day to return.")

    def list_partitions(self, days: Days) -> list[dt.date]:
        """Return all days within `days`: an API does not report which days it has."""
        return list(days)

    def read(self, partition: dt.date) -> pa.RecordBatchReader:
        """Read the rows of one day, in the order of the API.

        Raises:
            DataError: there is no such page, or its content does not fit. Raised here or while the returned reader is
                read. A retry cannot help.
            SpecError: a secret is not in the environment, or the API refuses it. A retry cannot help.
            ServiceError: the API failed several times. Raised here or while the returned reader is read. A retry can
                help.
        """
        params = {name: fill_date(value, partition) for name, value in self.params.items()}
        return self._open_reader(fill_date(self.url, partition), params, partition)


@dataclass(frozen=True)
class HttpChanges(_HttpRows):
    """New and changed rows of an HTTP JSON API, incremental by cursor. For the other fields see `_HttpRows`.

    Args:
        cursor: column whose values only grow; the API must return the rows sorted by it.
        since_param: parameter of the query in which the API expects the last cursor. If the API also returns rows up to
            that cursor, they are dropped.
    """

    cursor: str = ""
    since_param: str = "since"

    def __post_init__(self) -> None:
        """Refuse a cursor that is not declared, and {date}.

        Raises:
            SpecError: a retry cannot help.
        """
        super().__post_init__()
        if self._has_date():
            problem = f"{redact(self.url)}: the address or params= has {{date}}, but changes have no day."
            raise SpecError(problem, "Remove it, or use HttpSource.")
        if self.cursor not in self.columns:
            raise SpecError(f"{redact(self.url)}: cursor={self.cursor!r} is not one of columns=.")

    def read_changes(self, since: str | None) -> pa.RecordBatchReader:
        """Read the rows whose cursor is greater than `since`, ordered by cursor; all rows if `since` is None.

        Raises:
            DataError: there is no such page, its content does not fit, or the rows are not sorted. Raised here or while
                the returned reader is read. A retry cannot help.
            SpecError: `since` is not a value of the cursor, a secret is not in the environment, or the API refuses it.
                A retry cannot help.
            ServiceError: the API failed several times. Raised here or while the returned reader is read. A retry can
                help.
        """
        last_cursor = None if since is None else parse_cursor(since, self.columns[self.cursor], redact(self.url))
        params = {} if since is None else {self.since_param: since}
        reader = self._open_reader(self.url, {**self.params, **params}, day=None)
        return pa.RecordBatchReader.from_batches(reader.schema, self._filter_new_rows(last_cursor, reader))

    def _filter_new_rows(self, since: pa.Scalar | None, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Yield the rows after `since`; refuse rows that are not sorted by the cursor or have none."""
        last_cursor: pa.Scalar | None = None
        for batch in reader:
            cursors = batch[self.cursor]
            previous_cursors = pa.array(
                [last_cursor.as_py() if last_cursor else None, *cursors[:-1].to_pylist()], cursors.type
            )
            if cursors.null_count or pc.any(pc.less(cursors, previous_cursors)).as_py():
                raise DataError(
                    f"{redact(self.url)}: the rows do not come in the order of {self.cursor}.",
                    "Ask the API to sort by it, with a parameter.",
                )
            last_cursor = cursors[-1]
            new_rows = batch if since is None else batch.filter(pc.greater(cursors, since))
            if new_rows.num_rows:
                yield new_rows
