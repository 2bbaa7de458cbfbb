"""FileSource: CSV, JSON lines and Parquet, on this machine, in an object store or on the web."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources import csv_file, json_file, parquet_file
from pipelines.ingestion.sources.addresses import redacted
from pipelines.ingestion.sources.convert import Ambiguous, At, Zone, column, dated, days, fitted
from pipelines.ingestion.sources.layouts import Extra, Layout
from pipelines.ingestion.sources.place import DATE, days_there, files_of, of_day, opened, telling, unpacked
from pipelines.lake import PARTITION
from pipelines.source import Description
from pipelines.window import Days

READERS = {"csv": csv_file.batches, "json": json_file.batches, "parquet": parquet_file.batches}


@dataclass(frozen=True)
class FileSource:
    """Rows of files, read in batches: memory does not grow with them.

    Args:
        url: a path, file://, s3://, http:// or https://; with {date} or {date:%Y/%m/%d} for the day, and * where a day
            has several files. Without {date} one file holds many days. Names in .gz, .zst or .zip are unpacked.
        format: of the content. JSON is an object a line.
        columns: column to type. They are demanded, and every value has to fit. Timestamps become UTC.
        day: column that says which day a row is of (a date, or a timestamp: its day in UTC). Needed without {date};
            with it, every row is checked. A column `date` is taken for it.
        extra: whether other columns are taken too, in types found in the first rows, or ignored.
        timezone: of timestamps that bring no offset: a name of the IANA database.
        ambiguous: what the hour that comes twice in autumn is taken for.
        encoding: of CSV or JSON.
        delimiter: of a CSV.
        nulls: words of a CSV that stand for no value.
    """

    url: str = field(repr=False)
    format: Literal["csv", "json", "parquet"]
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    day: str | None = None
    extra: Extra = "take"
    timezone: str = ""
    ambiguous: Ambiguous = "refuse"
    encoding: str = "utf-8"
    delimiter: str = ","
    nulls: Sequence[str] = ("",)

    def __post_init__(self) -> None:
        """Refuses what could not be read."""
        if self.format not in READERS:
            raise SpecError(f"{redacted(self.url)}: unknown format {self.format!r}.", f"Known: {', '.join(READERS)}.")
        if not self._by_day and not self.day:
            raise SpecError(f"{redacted(self.url)}: no {{date}} in it, and no day=.", "Which day is a row of?")
        if self.day and self.extra == "ignore" and self.day not in self.columns:
            raise SpecError(f"{redacted(self.url)}: day={self.day!r} is not in columns=, and others are ignored.")
        Zone(self.timezone, self.ambiguous)

    def describe(self) -> Description:
        """Its place and declared columns."""
        return Description("files", redacted(self.url), self.columns)

    def partitions(self, days: Days) -> list[dt.date]:
        """Those of the days that have a file; those in the column `day` where one file holds many.

        Raises:
            DataError: a file that holds many days is not there, or cannot be read. A retry cannot help.
            ServiceError: the store does not answer. A retry can help.
        """
        if self._by_day:
            return days_there(self.url, days)
        found = {one for one in self._days_within() if days.first <= one <= days.last}
        return sorted(found)

    def read(self, partition: dt.date) -> pa.RecordBatchReader:
        """The rows of the day.

        Raises:
            DataError: there is no file, or it is not what was promised; from the reader too. A retry cannot help.
            ServiceError: the store failed; from the reader too. A retry can help.
        """
        rows = self._rows(partition)
        first = next(rows, None)
        declared = fitted(_empty(self.columns), self.columns, self._zone, At(""))
        if first is None:
            first = declared if PARTITION in self.columns else dated(declared, partition, "", At(""))
        held = (_held(batch, first.schema, redacted(self.url)) for batch in chain([first], rows))
        return pa.RecordBatchReader.from_batches(first.schema, (batch for batch in held if batch.num_rows))

    @property
    def _by_day(self) -> bool:
        return DATE.search(self.url) is not None

    @property
    def _zone(self) -> Zone:
        return Zone(self.timezone, self.ambiguous)

    def _rows(self, partition: dt.date) -> Iterator[pa.RecordBatch]:
        layout = Layout(self.columns, self.extra, self.delimiter, self.encoding, self.nulls)
        for address in files_of(of_day(self.url, partition)):
            for at, raw in self._read(address, layout):
                batch = fitted(raw, self.columns, self._zone, at)
                name = self.day or (PARTITION if PARTITION in batch.schema.names else "")
                batch = dated(batch, partition, name, at)
                wrong = pc.index(pc.not_equal(batch[PARTITION], pa.scalar(partition)), True).as_py()
                if wrong >= 0 and self._by_day:
                    raise DataError(
                        f"{at.place}: row {at.row + wrong}, column {name}: {raw[name][wrong]} is of the day "
                        f"{batch[PARTITION][wrong]}.",
                        "Only that of its name is wanted. Is timezone= right?",
                    )
                yield batch if wrong < 0 else batch.filter(pc.equal(batch[PARTITION], pa.scalar(partition)))

    def _days_within(self) -> Iterator[dt.date]:
        """The days of one file, from its column `day` alone."""
        assert self.day
        kinds = {self.day: self.columns[self.day]} if self.day in self.columns else {}
        layout = Layout(kinds, "ignore" if kinds else "take", self.delimiter, self.encoding, self.nulls)
        for address in files_of(self.url):
            for at, batch in self._read(address, layout):
                array = batch[self.day]
                kind = kinds.get(self.day, array.type)
                yield from pc.unique(days(column(array, kind, self._zone, self.day, at), self.day, at)).to_pylist()

    def _read(self, address: str, layout: Layout) -> Iterator[tuple[At, pa.RecordBatch]]:
        place = redacted(address)
        name = place.removesuffix("?...")
        seeking = self.format == "parquet" or name.lower().endswith(".zip")
        with telling(place), opened(address, seeking) as file, unpacked(file, name) as content:
            for row, batch in READERS[self.format](content, place, layout):
                if self.day and self.day not in batch.schema.names:
                    raise DataError(f"{place} lacks the column {self.day}, which is to say the day.")
                yield At(place, row), batch


def _empty(columns: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=pa.schema(list(columns.items())))


def _held(batch: pa.RecordBatch, schema: pa.Schema, place: str) -> pa.RecordBatch:
    """The batch in the first one's columns: a day's files have to agree."""
    if batch.schema == schema:
        return batch
    have, want = set(batch.schema.names), set(schema.names)
    if have != want:
        raise DataError(f"{place}: some have the column(s) {', '.join(sorted(have ^ want))}, others not.")
    try:
        return batch.select(schema.names).cast(schema)
    except pa.ArrowException as error:
        raise DataError(f"{place}: files differ: {error}.", "Declare the column in columns=.") from None
