"""Query the data files of a table, and cache the results of each file: a data file never changes.

This suits tables with thousands of small files, of which a few are new at each call.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.table import Table

from pipelines.lake import views
from pipelines.lake.cached.manifests import ManifestReader, has_deletes
from pipelines.lake.partitions import build_range_filter
from pipelines.system.duckdb_session import (
    LOW_MEMORY_MIB,
    connect,
    quote_identifier,
    quote_text,
    read_columns,
    retry_with_more_memory,
)
from pipelines.system.temporary_folders import make_temporary_folder

LAST_DAY = dt.date(9999, 12, 31)
BATCH_FILES = 1_000
"""Largest number of files that one query reads."""
Record = dict[str, Any]
"""A row of a query's result, without `filename`."""


@dataclass(frozen=True)
class FileQuery:
    """A query over data files whose result can be divided by file."""

    sql: str
    """Selects from `files`, which has the rows of some files and the column `filename`. The result must have a column
    `filename`, too, and each row of the result must depend on the rows of that file only."""
    columns: Sequence[str]
    """Columns of the table that the query needs. Where the files lack one, it is null."""


class FileRecords:
    """The results of a query for each data file of a table.

    Args:
        query: the query.
    """

    def __init__(self, query: FileQuery) -> None:
        self._query = query
        self._manifests = ManifestReader()
        self._records: dict[str, list[Record]] = {}
        """Maps the location of each file to its records."""

    def read(self, table: Table, first: dt.date) -> list[Record]:
        """Return the records of all files whose `date` is `first` or later. Only new files are read.

        If another engine deleted rows by delete files, nothing is cached, and all files are read.

        Raises:
            DataError: a file is missing, or its Parquet metadata are damaged. A retry cannot help.
            duckdb.Error: the rows of a file are damaged, or the query is wrong. A retry cannot help.
            ServiceError: the storage does not answer. A retry can help.
        """
        if has_deletes(table):
            with views.open_files(table.scan(row_filter=build_range_filter(first, LAST_DAY))) as paths:
                return [record for records in self._query_files(paths, paths).values() for record in records]
        locations = [entry.location for entry in self._manifests.list_files(table, first)]
        new_locations = [location for location in locations if location not in self._records]
        with make_temporary_folder() as folder:
            paths = views.fetch_files(table.io, new_locations, folder)
            new_records = self._query_files(paths, new_locations)
        records = {**self._records, **new_records}
        self._records = {location: records[location] for location in locations}
        return [record for location in locations for record in self._records[location]]

    def _query_files(self, paths: Sequence[str], locations: Sequence[str]) -> dict[str, list[Record]]:
        """Return the records of each file by its location. `paths` and `locations` name the files in the same order."""
        location_by_path = dict(zip(paths, locations, strict=True))
        records: dict[str, list[Record]] = {location: [] for location in locations}
        for start in range(0, len(paths), BATCH_FILES):  # so that memory does not grow with the number of files
            for record in self._query_batch(paths[start : start + BATCH_FILES]):
                records[location_by_path[record.pop("filename")]].append(record)
        return records

    def _query_batch(self, paths: Sequence[str]) -> list[Record]:
        files = ", ".join(map(quote_text, paths))
        source = f"read_parquet([{files}], union_by_name = true, hive_partitioning = false, filename = true)"
        with connect(LOW_MEMORY_MIB) as connection:
            known_columns = set(read_columns(connection, source, paths))
            columns = ", ".join(
                quote_identifier(name) if name in known_columns else f"NULL AS {quote_identifier(name)}"
                for name in self._query.columns
            )
            statement = f"WITH files AS (SELECT filename, {columns} FROM {source}) {self._query.sql}"  # noqa: S608
            records: list[Record] = retry_with_more_memory(
                connection, lambda: connection.sql(statement).arrow().read_all().to_pylist()
            )
        return records
