"""HttpSource and HttpChanges: rows of an HTTP JSON API, a page at a time."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources.addresses import redacted
from pipelines.ingestion.sources.convert import Ambiguous, At, Zone, dated, of_values, watermark
from pipelines.ingestion.sources.layouts import Extra, Layout, demand
from pipelines.ingestion.sources.pages import OnePage, Page, Pages, found, same_host
from pipelines.ingestion.sources.place import DATE, of_day
from pipelines.ingestion.sources.web import Web
from pipelines.lake import PARTITION
from pipelines.source import Description
from pipelines.window import Days

MAX_BYTES = 16 * 1024 * 1024
MAX_PAGES = 100_000
"""After which an API is taken for one that never ends."""
Kinds = dict[str, pa.DataType]
Records = list[dict[str, Any]]


@dataclass(frozen=True)
class _Http:
    """The rows of an HTTP JSON API. Failures that may pass, Retry-After too, are tried again.

    Args:
        url: http:// or https://; may hold {date} or {date:%Y/%m/%d}.
        params: of the query; their values may hold {date}.
        rows: where the list of rows is in a page: `data.items`; empty where the page is the list.
        pages: how to get the next one: OnePage, PageNumber, Offset, CursorToken or LinkHeader.
        columns: column to type. They are demanded, and every value has to fit. Timestamps become UTC.
        extra: whether other columns are taken too, in types found in the first page, or ignored.
        day: column that says which day a row is of (a date, or a timestamp: its day in UTC).
        headers_env: header to the environment variable that holds its value: secrets are never in the source.
        rate_per_s: most requests a second.
        timezone: of timestamps that bring no offset: a name of the IANA database.
        ambiguous: what the hour that comes twice in autumn is taken for.
        max_bytes: longest page.
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
        """Refuses what could not be read."""
        if not self.url.startswith(("http://", "https://")):
            raise SpecError(f"{redacted(self.url)[:100]} is no address of an API.", "Wanted: https://...")
        Zone(self.timezone, self.ambiguous)

    def describe(self) -> Description:
        """Its address and declared columns."""
        return Description("API", redacted(self.url), self.columns)

    def _web(self) -> Web:
        missing = [name for name in self.headers_env.values() if not os.environ.get(name)]
        if missing:
            raise SpecError(f"the environment variable {missing[0]} is not set.", "It is to hold a header of the API.")
        headers = {header: os.environ[name] for header, name in self.headers_env.items()}
        # Not to another address: `requests` would carry our headers there.
        return Web(headers, self.rate_per_s, redirects=False)

    def _records(self, url: str, params: Mapping[str, str]) -> Iterator[Records]:
        """The rows of each page."""
        web, ask, total, seen = self._web(), self.pages.first(), 0, set[bytes]()
        for number in range(MAX_PAGES):
            address = same_host(url, ask.url) if ask.url else url
            asked = {} if ask.url else {**params, **ask.params}
            content, answer = web.body(address, asked, self.max_bytes)
            place = f"page {number + 1} of {redacted(url)}"
            body = self._parsed(content, place)
            records = self._listed(body, place)
            _demand_new(seen, json.dumps([asked, ask.url]), records, place)
            yield records
            link = answer.links.get("next", {}).get("url", "")
            following = self.pages.after(Page(number, body, len(records), total, link))
            if following is None:
                return
            ask, total = following, total + len(records)
        raise DataError(f"{redacted(url)} has more than {MAX_PAGES} pages.", "Ask for larger ones.")

    def _parsed(self, content: bytes, place: str) -> Any:
        exact = any(pa.types.is_decimal(kind) for kind in self.columns.values())
        try:
            return json.loads(content, parse_float=Decimal if exact else float)
        except (ValueError, RecursionError):
            raise DataError(
                f"{place} is no JSON.", "Is it the API's address, and not that of a page for people?"
            ) from None

    def _listed(self, body: Any, place: str) -> Records:
        records = found(body, self.rows)
        if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
            has = f"It has: {', '.join(map(repr, list(body)[:20]))}." if isinstance(body, dict) else ""
            raise DataError(f"{place} has no list of objects at rows={self.rows!r}.", has)
        return records

    def _reader(self, url: str, params: Mapping[str, str], day: dt.date | None) -> pa.RecordBatchReader:
        batches = self._batches(url, params, day)
        first = next(batches, None)
        if first is None:
            empty = pa.RecordBatch.from_pylist([], schema=pa.schema(list(self.columns.items())))
            schema = dated(empty, day, self._day_column(self.columns, day), At(redacted(url))).schema
            return pa.RecordBatchReader.from_batches(schema, iter(()))
        return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))

    def _batches(self, url: str, params: Mapping[str, str], day: dt.date | None) -> Iterator[pa.RecordBatch]:
        kinds: Kinds = {}
        zone, row = Zone(self.timezone, self.ambiguous), 1
        for records in self._records(url, params):
            if not records:
                continue
            at = At(redacted(url), row)
            names = list(dict.fromkeys(chain.from_iterable(records)))
            kinds = kinds or self._kinds(records, names, zone, at)
            new = [name for name in names if name not in kinds]
            if new and self.extra == "take":
                told = f"{at.place}: from row {row} on there is a column {new[0]} that the first page has not."
                raise DataError(told, "Declare it in columns=.")
            arrays = [
                of_values([one.get(name) for one in records], kind, zone, name, at) for name, kind in kinds.items()
            ]
            batch = pa.RecordBatch.from_arrays(arrays, names=list(kinds))
            yield dated(batch, day, self._day_column(kinds, day), at)
            row += len(records)

    def _kinds(self, records: Records, names: list[str], zone: Zone, at: At) -> Kinds:
        demand(at.place, list(self.columns), names)
        kinds = dict(self.columns)
        for name in Layout(self.columns, self.extra).others(names):
            kind = of_values([one.get(name) for one in records], None, zone, name, at).type
            if pa.types.is_null(kind):
                kind = pa.string()
            kinds[name] = pa.float64() if pa.types.is_decimal(kind) else kind
        return kinds

    def _day_column(self, kinds: Mapping[str, pa.DataType], day: dt.date | None) -> str:
        name = self.day or (PARTITION if PARTITION in kinds or day is None else "")
        if name and name not in kinds:
            raise DataError(f"{redacted(self.url)} lacks the column {name}, which is to say the day.")
        return name


@dataclass(frozen=True)
class HttpSource(_Http):
    """The rows of an HTTP JSON API, by the day: {date} stands in its address or parameters; see `_Http`."""

    def __post_init__(self) -> None:
        """Refuses what could not be read."""
        super().__post_init__()
        if not any(DATE.search(one) for one in (self.url, *self.params.values())):
            raise SpecError(f"{redacted(self.url)}: no {{date}} in it or in params=.", "Which day is to be asked for?")

    def partitions(self, days: Days) -> list[dt.date]:
        """All of the days: an API does not say which it has."""
        return list(days)

    def read(self, partition: dt.date) -> pa.RecordBatchReader:
        """The rows of the day, as the API orders them.

        Raises:
            DataError: there is no such page, or it is not what was promised; from the reader too.
            SpecError: a secret is not in the environment, or is refused.
            ServiceError: the API failed several times; from the reader too. A retry can help.
        """
        params = {name: of_day(value, partition) for name, value in self.params.items()}
        return self._reader(of_day(self.url, partition), params, partition)


@dataclass(frozen=True)
class HttpChanges(_Http):
    """The rows of an HTTP JSON API that came or changed since; see `_Http`.

    Args:
        cursor: column that only grows; the API has to order by it.
        since_param: parameter of the smallest cursor that is wanted. Rows that came before are dropped here.
    """

    cursor: str = ""
    since_param: str = "since"

    def __post_init__(self) -> None:
        """Refuses what could not be read."""
        super().__post_init__()
        if self.cursor not in self.columns:
            raise SpecError(f"{redacted(self.url)}: cursor={self.cursor!r} is not one of columns=.")

    def changes(self, since: str | None) -> pa.RecordBatchReader:
        """The rows whose cursor is beyond `since`, all where it is None, in the order of the cursor.

        Raises:
            DataError: as `HttpSource.read` does, and where the rows come in another order; from the reader too.
            SpecError: `since` is no value of the cursor, or a secret is not there.
            ServiceError: the API failed several times; from the reader too. A retry can help.
        """
        beyond = None if since is None else watermark(since, self.columns[self.cursor], redacted(self.url))
        asked = {} if since is None else {self.since_param: since}
        reader = self._reader(self.url, {**self.params, **asked}, None)
        return pa.RecordBatchReader.from_batches(reader.schema, self._beyond(beyond, reader))

    def _beyond(self, since: pa.Scalar | None, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        last: pa.Scalar | None = None
        for batch in reader:
            cursors = batch[self.cursor]
            before = pa.array([last.as_py() if last else None, *cursors[:-1].to_pylist()], cursors.type)
            if cursors.null_count or pc.any(pc.less(cursors, before)).as_py():
                raise DataError(
                    f"{redacted(self.url)}: the rows do not come in the order of {self.cursor}.",
                    "Ask the API to sort by it, with a parameter.",
                )
            last = cursors[-1]
            own = batch if since is None else batch.filter(pc.greater(cursors, since))
            if own.num_rows:
                yield own


def _demand_new(seen: set[bytes], asked: str, records: Records, place: str) -> None:
    """Refuses an API that goes round in a circle, or gives the same page whatever it is asked for."""
    marks = {hashlib.sha256(asked.encode()).digest()}
    if records:
        marks.add(hashlib.sha256(json.dumps(records, default=str).encode()).digest())
    if seen & marks:
        raise DataError(f"{place} has been there before.", "Are the parameters of pages= those of the API?")
    seen |= marks
