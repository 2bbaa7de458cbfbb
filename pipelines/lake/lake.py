"""Read and write the tables of one catalog, a partition (an hour, a day or a month) at a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import DataScan, Table

from pipelines.errors import DataError
from pipelines.lake import differences, evolution, history, views
from pipelines.lake.catalog import create_table, find_table, load_table, open_catalog
from pipelines.lake.commits import PARTITION_PROPERTY, ChangeCounts, Commit, retry_conflicts
from pipelines.lake.digest_files import write_file_with_digest
from pipelines.lake.month_table import MonthTable
from pipelines.lake.new_files import NewFiles, build_properties, check_first_rows, commit_new_files, write_new_files
from pipelines.lake.partitions import (
    WHOLE_PARTITION,
    build_exclusion_filter,
    build_filter,
    build_range_filter,
    count_rows,
    list_files_by_partition,
    list_partition_columns,
)
from pipelines.partitions import Partition, PartitionT
from pipelines.window import Unit


class Lake:
    """The tables of one catalog. Cheap to create; must not be shared by threads."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    @classmethod
    def open(cls) -> Self:
        """Open the configured lake; create it if there is none.

        Raises:
            ConflictError: the SQLite catalog stayed locked. A retry can help. Other errors: see `open_catalog`.
        """
        return cls(open_catalog())

    def get_month_table(self, name: str, schema: pa.Schema, **options: bool) -> MonthTable:
        """Return a table whose partitions are months; `MonthTable` explains the arguments."""
        return MonthTable(name, schema, self.catalog, **options)

    def write_partition(
        self,
        name: str,
        partition: Partition,
        rows: pa.Table | pa.RecordBatchReader,
        key: Sequence[str] = (),
        part_values: Mapping[str, str] = WHOLE_PARTITION,
        ignored_columns: Sequence[str] = (),
    ) -> Commit:
        """Write all rows of one partition, replacing its old rows. Idempotent: equal rows are not committed again.

        If `rows` is a reader, memory does not grow with the partition. Columns that the table lacks are added;
        columns that the table has in a narrower type are widened.

        Args:
            name: name of the table; if there is no such table, it is created with the rows' schema.
            partition: the partition to write.
            rows: all rows of the partition, or those with `part_values`, in the order in which they are read. Their
                `date` (and `hour`, if the partition is an hour) are those of the partition.
            key: columns that identify a row. Without them, a changed row is counted as one removed and one added.
            part_values: names and values of columns that are the same in all `rows`. Only the partition's rows with
                these values are replaced. Every write to the table must name the same columns.
            ignored_columns: columns that are not compared. Rows that differ only in these columns are equal.

        Raises:
            DataError: there are no rows, or rows of another partition; or a column is gone, narrower or of another
                type; or a column of the key is in neither the old nor the new rows. A retry cannot help.
            ConflictError: other writers committed first in every attempt. A retry can help.
        """
        batches: Iterator[pa.RecordBatch] = iter(rows.to_batches() if isinstance(rows, pa.Table) else rows)
        batches = check_first_rows(partition, rows.schema, batches)
        table = self._find_or_create(name, rows.schema, list_partition_columns(partition, part_values))
        schema = evolution.to_iceberg_schema(rows.schema, table.schema().as_arrow())
        evolution.plan_evolution(table, schema, partition)
        row_filter = build_filter(partition, part_values)
        with write_new_files(table, partition, schema, batches) as new_files:
            for attempt in retry_conflicts():
                with attempt:
                    return self._commit(name, row_filter, partition, new_files, key, ignored_columns)
        raise AssertionError("tenacity returns or raises")

    def clear_partition(
        self, name: str, partition: Partition, part_values: Mapping[str, str] = WHOLE_PARTITION
    ) -> bool:
        """Delete the rows of a partition, or its rows with `part_values`; return whether there were any. Idempotent."""
        for attempt in retry_conflicts():
            with attempt:
                table = find_table(self.catalog, name)
                row_filter = build_filter(partition, part_values)
                if table is None or not views.list_data_files(table.scan(row_filter=row_filter)):
                    return False
                table.delete(row_filter, snapshot_properties={PARTITION_PROPERTY: partition.isoformat()})
                return True
        raise AssertionError("tenacity returns or raises")

    def append_rows(self, name: str, partition: dt.date, rows: pa.Table) -> None:
        """Append rows to a partition, as one commit. Columns that the table lacks are added.

        Use it only for tables whose rows never change, and whose old snapshots nobody reads: if there are many, all of
        them are expired.

        Args:
            name: name of the table; if there is no such table, it is created with the rows' schema.
            partition: the day of the partition; all rows have it as their `date`.
            rows: rows to append.

        Raises:
            ConflictError: other writers committed first in every attempt. A retry can help.
        """
        for attempt in retry_conflicts():
            with attempt:
                create_table(self.catalog, name, rows.schema)
                table = load_table(self.catalog, name)
                add_columns = evolution.plan_new_columns(table, rows.schema).apply
                with write_file_with_digest(table, partition, rows) as new_files:
                    properties = build_properties(partition, new_files)
                    commit_new_files(table, new_files, row_filter=None, properties=properties, apply=add_columns)
        history.expire_old_snapshots(table)

    def read_partition(self, name: str, partition: Partition) -> pa.Table:
        """Return the rows of one partition, in memory; an empty table if it has no rows.

        Raises:
            DataError: there is no such table. A retry cannot help.
        """
        table = load_table(self.catalog, name)
        return table.scan(row_filter=build_filter(partition)).to_arrow().cast(table.schema().as_arrow())

    def read_rows(self, name: str, row_filter: BooleanExpression) -> pa.Table | None:
        """Return the rows that match, in memory; None if there is no such table."""
        table = find_table(self.catalog, name)
        return table.scan(row_filter=row_filter).to_arrow() if table else None

    def read_window(self, name: str, first: Partition, last: Partition, snapshot_id: int) -> pa.Table:
        """Return the rows of the partitions `first`..`last` (both included) as they were at a snapshot, in memory.

        Raises:
            DataError: there is no such table or snapshot. A retry cannot help.
        """
        return self._scan_partitions(name, first, last, snapshot_id).to_arrow()

    @contextmanager
    def create_view(
        self,
        connection: duckdb.DuckDBPyConnection,
        view: str,
        name: str,
        first: Partition,
        last: Partition,
        snapshot_id: int | None = None,
        excluded_partitions: Collection[Partition] = (),
    ) -> Iterator[None]:
        """Create the DuckDB view `view` of the table's partitions `first`..`last`; drop it when the block ends.

        DuckDB reads the data files itself, so memory does not grow with the partitions.

        Raises:
            DataError: there is no such table or snapshot. A retry cannot help.
        """
        scan = self._scan_partitions(name, first, last, snapshot_id)
        if excluded_partitions:
            scan = scan.filter(build_exclusion_filter(excluded_partitions))
        with views.create_scan_view(connection, view, scan):
            yield

    @contextmanager
    def open_files(
        self, name: str, first: Partition, last: Partition, snapshot_id: int | None = None
    ) -> Iterator[tuple[list[str], pa.Schema]]:
        """Yield the paths of Parquet files with the rows of `first`..`last`, and the columns as of the snapshot.

        The paths are on this machine, and valid until the block ends. A file may lack a column, whose values are then
        null, or have it in a narrower type.

        Raises:
            DataError: there is no such table or snapshot. A retry cannot help.
        """
        scan = self._scan_partitions(name, first, last, snapshot_id)
        with views.open_files(scan) as paths:
            yield paths, views.read_schema(scan)

    def read_schema(self, name: str) -> pa.Schema:
        """Return the table's columns.

        Raises:
            DataError: there is no such table. A retry cannot help.
        """
        return evolution.to_iceberg_schema(load_table(self.catalog, name).schema().as_arrow())

    def count_rows_by_day(self, name: str) -> dict[dt.date, int]:
        """Return the row count of every `date` that has rows; empty if there is no such table."""
        return self.count_rows_by_partition(name, "day")  # type: ignore[return-value]

    def count_rows_by_partition(self, name: str, unit: Unit) -> dict[Partition, int]:
        """Return the row count of each partition (of unit `unit`) that has rows; empty if there is no such table."""
        table = find_table(self.catalog, name)
        return count_rows(table, unit) if table else {}

    def count_rows_of_partitions(
        self, name: str, partitions: Collection[PartitionT], part_values: Mapping[str, str] = WHOLE_PARTITION
    ) -> dict[PartitionT, int]:
        """Return the row count of each of `partitions`, or of its rows with `part_values`; omit counts of 0."""
        table = find_table(self.catalog, name) if partitions else None
        files = list_files_by_partition(table, partitions, part_values) if table else []
        counts: dict[PartitionT, int] = {}
        for partition, task in files:
            counts[partition] = counts.get(partition, 0) + task.file.record_count
        return counts

    def find_lost_partitions(self, name: str, partitions: Collection[PartitionT]) -> set[PartitionT]:
        """Return those of `partitions` that have a file that is missing or does not have its original size.

        Raises:
            ServiceError: the storage does not answer. A retry can help.
        """
        table = find_table(self.catalog, name) if partitions else None
        files = list_files_by_partition(table, partitions) if table else []
        return {partition for partition, task in files if table and not views.is_complete(table.io, task)}

    def pin_window(self, name: str, first: Partition, last: Partition) -> int:
        """Return the id of the oldest snapshot since which no partition in `first`..`last` was written.

        The id stays the same while other partitions are written, so that what was computed from the window stays valid.

        Raises:
            DataError: the table does not exist or is empty. A retry cannot help.
        """
        snapshot = history.find_oldest_equal_snapshot(load_table(self.catalog, name), first, last)
        if snapshot is None:
            raise DataError(f"table {name} is empty.", "Ingest and validate first.")
        return int(snapshot.snapshot_id)

    def find_partition_versions(self, name: str, partitions: Collection[PartitionT]) -> dict[PartitionT, str]:
        """Return, for each of `partitions` that was written, a text that changes when the partition's rows change."""
        table = find_table(self.catalog, name)
        return history.find_partition_versions(table, partitions) if table else {}

    def _find_or_create(self, name: str, schema: pa.Schema, partition_columns: Sequence[str]) -> Table:
        table = find_table(self.catalog, name)
        if table is None:
            create_table(self.catalog, name, evolution.to_iceberg_schema(schema), partition_columns)
            table = load_table(self.catalog, name)
        return table

    def _scan_partitions(self, name: str, first: Partition, last: Partition, snapshot_id: int | None) -> DataScan:
        table = load_table(self.catalog, name)
        if snapshot_id is not None and table.snapshot_by_id(snapshot_id) is None:
            raise DataError(f"table {name} has no snapshot {snapshot_id}: it has expired, or belongs to another lake.")
        return table.scan(row_filter=build_range_filter(first, last), snapshot_id=snapshot_id)

    def _commit(
        self,
        name: str,
        row_filter: BooleanExpression,
        partition: Partition,
        new_files: NewFiles,
        key: Sequence[str],
        ignored_columns: Sequence[str],
    ) -> Commit:
        """Replace the rows that `row_filter` selects by the new rows, in one attempt; do nothing if they are equal."""
        table = load_table(self.catalog, name)
        plan = evolution.plan_evolution(table, new_files.schema, partition)
        old_scan = table.scan(row_filter=row_filter)
        files = views.list_data_files(old_scan)
        has_rows, has_same_digest = bool(files), history.find_digest(table, partition) == new_files.digest
        is_intact = has_rows and has_same_digest and views.have_digest(table.io, files, new_files.digest)
        column_changes = plan.describe()
        if is_intact and not column_changes:
            return _build_unchanged_commit(table, partition, new_files)
        changes = ChangeCounts(added=new_files.rows)
        if has_rows:
            changes = differences.count_changes(old_scan, new_files, key, ignored_columns)
        is_damaged = has_rows and has_same_digest and not is_intact  # then the files are replaced by equal rows
        if not changes and not column_changes and not is_damaged:
            return _build_unchanged_commit(table, partition, new_files)
        properties = build_properties(partition, new_files)
        snapshot = commit_new_files(table, new_files, row_filter if has_rows else None, properties, plan.apply)
        rows = new_files.rows
        return Commit(snapshot.snapshot_id, changed=True, rows=rows, changes=changes, column_changes=column_changes)


def _build_unchanged_commit(table: Table, partition: Partition, new_files: NewFiles) -> Commit:
    """Build the result of a write that changed nothing, with the snapshot that last wrote the partition."""
    snapshot = history.find_last_write(table, partition) or table.current_snapshot()
    assert snapshot is not None
    return Commit(snapshot.snapshot_id, changed=False, rows=new_files.rows)
