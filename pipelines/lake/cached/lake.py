"""Define a lake that caches what it reads, for readers that need the same rows for many models."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow

from pipelines.lake.cached.file_records import FileQuery, FileRecords, Record
from pipelines.lake.cached.locations import read_table_locations
from pipelines.lake.cached.manifests import ManifestReader
from pipelines.lake.catalog import find_table
from pipelines.lake.lake import Lake
from pipelines.lake.month_table import ALL_COLUMNS, MonthTable
from pipelines.lake.partitions import WHOLE_PARTITION, make_partition
from pipelines.partitions import Partition, PartitionT, get_unit
from pipelines.window import Unit

T = TypeVar("T")


@dataclass(frozen=True)
class _Result:
    """The value that a read returned, or the error that it raised."""

    table: str
    value: Any = None
    error: Exception | None = None


class CachedLake(Lake):
    """A lake that caches what it read of a table, until `refresh` finds that the table has changed.

    The error of a read is cached, too, until the next `refresh`, so that a lake that does not answer is not read again
    for each model. Only the methods that are defined here use the cache. Do not change a table through this object.
    """

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self._results: dict[Hashable, _Result] = {}
        """Maps the name of a table and a key to what was read."""
        self._locations: dict[str, str] = {}
        """Maps the name of each table to the location of its metadata at the last `refresh`."""
        self._manifests: dict[str, ManifestReader] = {}
        self._records: dict[str, FileRecords] = {}

    def refresh(self) -> None:
        """Remove all errors, and the results of the tables that have changed since the last call, from the cache.

        Raises:
            DataError: the catalog's database is damaged. A retry cannot help.
            ServiceError: the lake's catalog does not answer. A retry can help.
        """
        locations = read_table_locations(self.catalog)
        self._results = {
            key: result
            for key, result in self._results.items()
            if result.error is None and locations.get(result.table) == self._locations.get(result.table)
        }
        self._locations = locations

    def get_or_read(self, table: str, key: Hashable, read: Callable[[], T]) -> T:
        """Return the cached result of `read` for this key, or raise its cached error; call `read` if there is neither.

        Args:
            table: name of the table that is read.
            key: identifies what is read.
            read: function that reads the table.
        """
        result = self._results.get((table, key))
        if result is None:
            try:
                result = _Result(table, read())
            except Exception as error:
                result = _Result(table, error=error)
            self._results[table, key] = result
        if result.error:
            raise result.error.with_traceback(None)
        value: T = result.value
        return value

    def get_month_table(self, name: str, schema: pa.Schema, **options: bool) -> MonthTable:
        """Return a table by month whose rows are read once; filters select from these rows, in memory.

        The options have no effect.
        """
        return _CachedMonthTable(self, name, schema)

    def read_rows(self, name: str, row_filter: BooleanExpression) -> pa.Table | None:
        """Return the rows that match, in memory; None if there is no such table."""
        return self.get_or_read(
            name, ("rows", repr(row_filter)), lambda: super(CachedLake, self).read_rows(name, row_filter)
        )

    def read_schema(self, name: str) -> pa.Schema:
        """Return the table's columns."""
        return self.get_or_read(name, "schema", lambda: super(CachedLake, self).read_schema(name))

    def count_rows_by_partition(self, name: str, unit: Unit) -> dict[Partition, int]:
        """Return the row count of every partition, of this unit, that has rows; empty if there is no such table."""
        return self.get_or_read(name, ("partitions", unit), lambda: self._count_rows(name, unit))

    def count_rows_of_partitions(
        self, name: str, partitions: Collection[PartitionT], part_values: Mapping[str, str] = WHOLE_PARTITION
    ) -> dict[PartitionT, int]:
        """Return the row count of each of `partitions` that has rows, or of its rows with `part_values`."""
        if part_values or not partitions:
            return super().count_rows_of_partitions(name, partitions, part_values)
        counts = self.count_rows_by_partition(name, get_unit(next(iter(partitions))))
        return {partition: counts[partition] for partition in partitions if partition in counts}

    def read_file_records(self, name: str, query: FileQuery, first: dt.date) -> list[Record]:
        """Return the results of a query for each data file whose `date` is `first` or later.

        If the table has changed, only new files are read, unless another engine deleted rows by delete files.

        Args:
            name: name of the table. If there is no such table, there are no results.
            query: the query. It must be the same one at each call for this table.
            first: first day.
        """
        return self.get_or_read(name, ("records", first), lambda: self._read_file_records(name, query, first))

    def find_partition_versions(self, name: str, partitions: Collection[PartitionT]) -> dict[PartitionT, str]:
        """Return, for each of `partitions` that was written, a text that changes when the partition's rows change."""
        return self.get_or_read(
            name,
            ("versions", frozenset(partitions)),
            lambda: super(CachedLake, self).find_partition_versions(name, partitions),
        )

    def _count_rows(self, name: str, unit: Unit) -> dict[Partition, int]:
        table = find_table(self.catalog, name)
        counts: dict[Partition, int] = {}
        for entry in self._manifests.setdefault(name, ManifestReader()).list_files(table) if table else ():
            partition = make_partition(entry.partition, unit)
            counts[partition] = counts.get(partition, 0) + entry.rows
        return counts

    def _read_file_records(self, name: str, query: FileQuery, first: dt.date) -> list[Record]:
        table = find_table(self.catalog, name)
        return self._records.setdefault(name, FileRecords(query)).read(table, first) if table else []


class _CachedMonthTable(MonthTable):
    """A table by month that is read once, with all its columns."""

    def __init__(self, lake: CachedLake, name: str, schema: pa.Schema) -> None:
        super().__init__(name, schema, lake.catalog)
        self._lake = lake

    def read(self, row_filter: BooleanExpression | None = None, columns: Sequence[str] = ALL_COLUMNS) -> pa.Table:
        """Return the rows that match `row_filter`; no rows if there is no such table."""
        rows: pa.Table = self._lake.get_or_read(self.name, "month table", super().read)
        if row_filter is not None and rows.num_rows:
            rows = rows.filter(
                self._lake.get_or_read(self.name, ("where", repr(row_filter)), lambda: self._convert_filter(row_filter))
            )
        return rows if tuple(columns) == ALL_COLUMNS else rows.select(list(columns))

    def _convert_filter(self, row_filter: BooleanExpression) -> Any:
        """Convert an Iceberg filter to one of pyarrow."""
        table = find_table(self.catalog, self.name)
        assert table is not None  # the table has rows, so it exists
        return expression_to_pyarrow(bind(table.schema(), row_filter, case_sensitive=True))
