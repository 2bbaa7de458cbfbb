"""Read files of CSV, JSON lines and Parquet: on this machine, in an object store or on the web (FileSource)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from os import PathLike
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources.addresses import redact
from pipelines.ingestion.sources.convert import Ambiguous, Position, Zone, convert_batch, convert_column
from pipelines.ingestion.sources.dates import DATE_PLACEHOLDER, FORMATS, fill_date
from pipelines.ingestion.sources.files import csv_file, json_file, parquet_file
from pipelines.ingestion.sources.files.split_file import split_file
from pipelines.ingestion.sources.files.storage import find_partitions, list_files, open_file, translate_errors, unpack
from pipelines.ingestion.sources.layouts import Extra, Layout
from pipelines.ingestion.sources.partition_columns import (
    add_partition_columns,
    compute_columns,
    describe_partition,
    list_partitions_of_rows,
    match_partition,
)
from pipelines.lake import DATE_COLUMN
from pipelines.partitions import Partition, get_date, list_partitions
from pipelines.source import Description, Source
from pipelines.window import Days, Unit

MIN_PARTITIONS = 2
"""Smallest number of partitions for which `FileSource.read_once` copies the rows of a file. For one, a copy saves no
time."""
DECIMAL_POINTS = (".", ",")
"""Characters that may stand before the decimals of a number."""
READERS = {"csv": csv_file.read_batches, "json": json_file.read_batches, "parquet": parquet_file.read_batches}
"""Maps each format to the function that reads a file of this format in batches."""


@dataclass(frozen=True)
class FileSource:
    """Rows of files, read in batches, so that memory does not grow with the files.

    Args:
        url: a path (text or `Path`), file://, s3://, http:// or https://, with {date} or {date:%Y/%m/%d} for the day,
            and * if a day has several files. Without {date}, each file may hold many days. A file that ends in .gz,
            .zst or .zip is unpacked. For an hour, {date} is YYYY-MM-DDTHH; for a month, YYYY-MM.
        format: format of the content. JSON must have one object on each line.
        columns: maps each required column to its type. Every value must fit its type. Timestamps are converted to UTC.
        day: column that gives the day of a row (a date, or a timestamp: its day in `day_timezone`), or its hour or
            month. Required if `url` has no {date}. If `url` has {date}, every row must be of the partition in the
            address. Without `day`, the column `date` is used; in a file without this column, all rows are of that
            partition.
        extra: `take`: other columns are read too, in types inferred from the first rows; `ignore`: they are not read.
        timezone: time zone of timestamps without an offset, by its name in the IANA database; empty: they are refused.
        ambiguous: what to do with a local time that occurs twice, when clocks go back: `refuse` it, or read it as the
            `earliest` or the `latest` of the two moments.
        time_formats: formats of dates and timestamps that are not ISO 8601, as `strptime` takes them: "%d.%m.%Y". A
            text is read in the first format that it matches.
        encoding: encoding of CSV or JSON.
        delimiter: character between the values of a CSV.
        nulls: texts in a CSV that mean that a value is missing.
        decimal_point: character before the decimals of the numbers in a CSV: `.` or `,`.
        final_newline: whether a CSV must end with a newline. Without one, the file may be truncated. Set it to False
            for a source whose complete files have no newline at the end.
        partition: unit of the partitions: hour, day or month, as in the dataset.
        day_timezone: time zone in which days and months begin, if `day` is a timestamp; UTC by default. Hours are
            always in UTC.
    """

    url: str | PathLike[str] = field(repr=False)
    format: Literal["csv", "json", "parquet"]
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    day: str | None = None
    extra: Extra = "take"
    timezone: str = ""
    ambiguous: Ambiguous = "refuse"
    time_formats: Sequence[str] = ()
    encoding: str = "utf-8"
    delimiter: str = ","
    nulls: Sequence[str] = ("",)
    decimal_point: Literal[".", ","] = "."
    final_newline: bool = True
    partition: Unit = "day"
    day_timezone: str = ""

    def __post_init__(self) -> None:
        """Refuse fields that contradict each other.

        Raises:
            SpecError: the message names the field. A retry cannot help.
        """
        if not isinstance(self.url, (str, PathLike)):
            raise SpecError(f"the address of a FileSource is {str(self.url)[:100]!r}: a text or a path is expected.")
        object.__setattr__(self, "url", os.fspath(self.url))
        if self.format not in READERS:
            raise SpecError(
                f"{redact(self._address)}: unknown format {self.format!r}.", f"Use one of: {', '.join(READERS)}."
            )
        if not self._has_files_by_day and not self.day:
            raise SpecError(
                f"{redact(self._address)}: the address has no {{date}}, and day= is not set.",
                "Set one of them, to give the day of each row.",
            )
        if self.day and self.extra == "ignore" and self.day not in self.columns:
            raise SpecError(
                f"{redact(self._address)}: day={self.day!r} is not in columns=, and other columns are ignored."
            )
        if self.decimal_point not in DECIMAL_POINTS:
            raise SpecError(
                f"{redact(self._address)}: decimal_point={self.decimal_point!r} is not supported.",
                f"Use {' or '.join(map(repr, DECIMAL_POINTS))}.",
            )
        Zone(self.timezone, self.ambiguous)
        Zone(self.day_timezone)
        self._check_unit()

    def _check_unit(self) -> None:
        """Refuse an unknown unit, and a placeholder or a time zone that does not fit the unit."""
        origin = redact(self._address)
        if self.partition not in FORMATS:
            raise SpecError(f"{origin}: unknown partition {self.partition!r}.", f"Use one of: {', '.join(FORMATS)}.")
        if self.partition == "hour" and self.day_timezone not in ("", "UTC"):
            raise SpecError(f"{origin}: day_timezone={self.day_timezone!r}, but hours are those of UTC.")
        if self.day_timezone and not self.day:
            raise SpecError(f"{origin}: day_timezone has no effect without day=.")
        formats = [match[1] for match in DATE_PLACEHOLDER.finditer(self._address) if match[1]]
        is_hourly, is_daily = (any(f"%{letter}" in text for text in formats) for letter in "Hd")
        if (formats and (self.partition == "hour") != is_hourly) or (self.partition == "month" and is_daily):
            message = f"{origin}: {{date:{formats[0]}}} does not fit partitions by {self.partition}."
            raise SpecError(message, f"Use {{date:{FORMATS[self.partition]}}}.")

    def describe(self) -> Description:
        """Return the address, without secrets, and the declared columns."""
        return Description("files", redact(self._address), self.columns)

    def list_partitions(self, days: Days) -> list[Partition]:
        """List the partitions within `days` that have a file; if one file holds many days, list those with rows.

        Raises:
            DataError: a file that holds many days does not exist, or cannot be read. A retry cannot help.
            SpecError: access is refused. A retry cannot help.
            ServiceError: the store does not answer. A retry can help.
        """
        if self._has_files_by_day:
            return find_partitions(self._address, list_partitions(days, self.partition))
        partitions = {key for key in self._find_partitions_with_rows() if days.first <= get_date(key) <= days.last}
        return sorted(partitions)

    def find_day_range(self) -> Days | None:
        """Return the first and the last day of a file that holds many days.

        Return None if it has no rows, or if each day has files of its own.
        """
        days = set() if self._has_files_by_day else {get_date(key) for key in self._find_partitions_with_rows()}
        return Days(min(days), max(days)) if days else None

    def read(self, partition: Partition) -> pa.RecordBatchReader:
        """Read the rows of one partition.

        Raises:
            DataError: there is no file, or its content does not fit. Raised here or while the returned reader is read.
                A retry cannot help.
            SpecError: access is refused. Raised here or while the returned reader is read. A retry cannot help.
            ServiceError: the store failed. Raised here or while the returned reader is read. A retry can help.
        """
        batches = self._read_partition_rows(partition)
        first_batch = next(batches, None)
        if first_batch is None:
            empty_batch = convert_batch(_build_empty_batch(self.columns), self.columns, self._zone, Position(""))
            has_date = DATE_COLUMN in self.columns
            first_batch = (
                empty_batch
                if has_date
                else add_partition_columns(empty_batch, partition, name="", position=Position(""))
            )
        matching_batches = (
            _match_schema(batch, first_batch.schema, redact(self._address)) for batch in chain([first_batch], batches)
        )
        return pa.RecordBatchReader.from_batches(
            first_batch.schema, (batch for batch in matching_batches if batch.num_rows)
        )

    @property
    def _address(self) -> str:
        return str(self.url)

    @property
    def _has_files_by_day(self) -> bool:
        """Whether each partition has one file or more of its own, because the address has a placeholder {date}."""
        return DATE_PLACEHOLDER.search(self._address) is not None

    @property
    def _zone(self) -> Zone:
        return Zone(self.timezone, self.ambiguous, self.time_formats)

    @contextmanager
    def read_once(self, partitions: Collection[Partition]) -> Iterator[Source]:
        """Yield a source of some partitions, which reads a file that holds many partitions only once.

        The rows of the partitions are copied to a temporary file. If each partition has files of its own, or if there
        are fewer than `MIN_PARTITIONS` partitions, nothing is copied.

        Raises:
            DataError: there is no file, or its content does not fit. A retry cannot help.
            ServiceError: the store failed. A retry can help.
        """
        if self._has_files_by_day or len(partitions) < MIN_PARTITIONS:
            yield self
            return
        # Without {date} in the address, the file is the same for any partition.
        batches = (batch for _, _, batch in self._read_rows(next(iter(partitions))))
        first_batch = next(batches, None)
        if first_batch is None:  # the file has no row
            yield self
            return
        rows = (
            _match_schema(batch, first_batch.schema, redact(self._address)) for batch in chain([first_batch], batches)
        )
        with split_file(self, self.partition, rows, partitions) as source:
            yield source

    def _read_partition_rows(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        for position, raw_batch, batch in self._read_rows(partition):
            is_of_partition = match_partition(batch, partition)
            index = pc.index(is_of_partition, False).as_py()  # of the first row of another partition
            if index >= 0 and self._has_files_by_day:
                name = self._find_day_column(batch)
                raise DataError(
                    f"{position.origin}: row {position.row + index}, column {name}: {raw_batch[name][index]} is of "
                    f"the {describe_partition(batch, index, self.partition)}.",
                    f"The file may only have rows of the {self.partition} in its name. Check timezone=.",
                )
            yield batch if index < 0 else batch.filter(is_of_partition)

    def _read_rows(self, partition: Partition) -> Iterator[tuple[Position, pa.RecordBatch, pa.RecordBatch]]:
        """Read the files of a partition, or the file of all partitions.

        Yields:
            The position of each batch, the batch as the file has it, and the converted batch with `date` and `hour`.
        """
        layout = self._build_layout(self.columns, self.extra)
        for address in list_files(fill_date(self._address, partition)):
            for position, raw_batch in self._read_file(address, layout):
                batch = convert_batch(raw_batch, self.columns, self._zone, position)
                name = self._find_day_column(batch)
                unit, timezone = self.partition, self.day_timezone
                yield position, raw_batch, add_partition_columns(batch, partition, name, position, unit, timezone)

    def _find_day_column(self, batch: pa.RecordBatch) -> str:
        """Return the column that gives the partition of a row; empty if only the file's address gives it."""
        return self.day or (DATE_COLUMN if DATE_COLUMN in batch.schema.names else "")

    def _build_layout(self, columns: Mapping[str, pa.DataType], extra: Extra) -> Layout:
        return Layout(columns, extra, self.delimiter, self.encoding, self.nulls, self.decimal_point, self.final_newline)

    def _find_partitions_with_rows(self) -> Iterator[Partition]:
        """Yield the partitions of all rows, some repeatedly. If `columns` has `day`, no other column is read."""
        assert self.day
        types = {self.day: self.columns[self.day]} if self.day in self.columns else {}
        layout = self._build_layout(types, "ignore" if types else "take")
        for address in list_files(self._address):
            for position, batch in self._read_file(address, layout):
                array = batch[self.day]
                array = convert_column(array, types.get(self.day, array.type), self._zone, self.day, position)
                columns = compute_columns(array, self.day, position, self.partition, self.day_timezone)
                yield from list_partitions_of_rows(columns, self.partition)

    def _read_file(self, address: str, layout: Layout) -> Iterator[tuple[Position, pa.RecordBatch]]:
        origin = redact(address)
        name = origin.removesuffix("?...")  # `redact` replaces the query of an address by ?...
        needs_seek = self.format == "parquet" or name.lower().endswith(".zip")
        with translate_errors(origin), open_file(address, needs_seek) as file, unpack(file, name) as content:
            for row, batch in READERS[self.format](content, origin, layout):
                if self.day and self.day not in batch.schema.names:
                    raise DataError(f"{origin} lacks the column {self.day}, which gives the day of a row.")
                yield Position(origin, row), batch


def _build_empty_batch(columns: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=pa.schema(list(columns.items())))


def _match_schema(batch: pa.RecordBatch, schema: pa.Schema, origin: str) -> pa.RecordBatch:
    """Return the batch with the columns of `schema`; refuse one whose file has other columns than the first file."""
    if batch.schema == schema:
        return batch
    differing_columns = set(batch.schema.names) ^ set(schema.names)
    if differing_columns:
        raise DataError(f"{origin}: only some of the files have the column(s) {', '.join(sorted(differing_columns))}.")
    try:
        return batch.select(schema.names).cast(schema)
    except pa.ArrowException as error:
        raise DataError(f"{origin}: files differ: {error}.", "Declare the column in columns=.") from None
