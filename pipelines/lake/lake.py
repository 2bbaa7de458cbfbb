"""The tables of one catalog."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import And, BooleanExpression, EqualTo, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.table import DataScan, Table
from pyiceberg.utils.config import Config

from pipelines.errors import DataError
from pipelines.lake import differences, evolution, history, views
from pipelines.lake.commits import (
    DIGEST_PROPERTY,
    NAMESPACE,
    PARTITION,
    PARTITION_PROPERTY,
    RETRIES,
    TABLE_PROPERTIES,
    Changes,
    Commit,
    retry_conflicts,
)
from pipelines.lake.spool import Spool, check_first_rows, write_spool
from pipelines.lake.transaction import CachingTransaction
from pipelines.settings import settings

_EPOCH = dt.date(1970, 1, 1)
_WHOLE: Mapping[str, str] = {}
"""Of a partition: all of it."""


class Lake:
    """The tables of one catalog. Cheap to make; not to be shared by threads."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    @classmethod
    def open(cls) -> Lake:
        """The configured lake; made where there is none.

        Raises:
            ConflictError: the SQLite catalog stayed locked. A retry can help.
        """
        for attempt in retry_conflicts():
            with attempt:
                catalog = load_catalog(NAMESPACE, **_embedded())
                catalog.create_namespace_if_not_exists(NAMESPACE)
                return cls(catalog)
        raise AssertionError("tenacity returns or raises")

    def write_partition(
        self,
        name: str,
        day: dt.date,
        rows: pa.Table | pa.RecordBatchReader,
        key: Sequence[str] = (),
        part: Mapping[str, str] = _WHOLE,
        aside: Sequence[str] = (),
    ) -> Commit:
        """The partition `day` of table `name` holds exactly `rows`. Idempotent: equal rows commit nothing.

        Memory does not grow with the partition where `rows` is a reader. Columns that the table lacks, or has
        narrower, are taken into it.

        Args:
            name: the table; made with the rows' schema where there is none.
            day: the partition.
            rows: all of them with `date` = `day`, in the order that they are to be read.
            key: columns that name a row, to tell a changed row from one removed and one added.
            part: column to its value in all the rows: only what the partition has of these is replaced. Every write to
                the table names the same columns.
            aside: columns that make no row another one.

        Raises:
            DataError: no rows, rows of another day, or columns that are gone, narrower or of another type. A retry
                cannot help.
            ConflictError: other writers kept winning for `RETRY_S`. A retry can help.
        """
        batches: Iterator[pa.RecordBatch] = iter(rows.to_batches() if isinstance(rows, pa.Table) else rows)
        batches = check_first_rows(day, rows.schema, batches)
        table = self._found(name)
        if table is None:
            self._ensure(name, evolution.to_iceberg_schema(rows.schema), [*part])
            table = self._table(name)
        schema = evolution.to_iceberg_schema(rows.schema, table.schema().as_arrow())
        evolution.plan_evolution(table, schema, day)
        with write_spool(table, day, schema, batches) as spool:
            for attempt in retry_conflicts():
                with attempt:
                    return self._commit(name, _only(day, part), day, spool, key, aside)
        raise AssertionError("tenacity returns or raises")

    def clear_partition(self, name: str, day: dt.date, part: Mapping[str, str] = _WHOLE) -> bool:
        """The partition `day` of table `name` holds no row (of `part`). Idempotent. Returns whether it had any."""
        for attempt in retry_conflicts():
            with attempt:
                table = self._found(name)
                only = _only(day, part)
                if table is None or not views.list_files(table.scan(row_filter=only)):
                    return False
                table.delete(only, snapshot_properties={PARTITION_PROPERTY: day.isoformat()})
                return True
        raise AssertionError("tenacity returns or raises")

    def read_partition(self, name: str, day: dt.date) -> pa.Table:
        """The rows of one partition, in memory; no rows where it was never written.

        Raises:
            DataError: there is no such table.
        """
        table = self._table(name)
        return table.scan(row_filter=_only(day)).to_arrow().cast(table.schema().as_arrow())

    def read_window(self, name: str, first: dt.date, last: dt.date, snapshot_id: int) -> pa.Table:
        """The rows of the partitions `first`..`last` (both included) as they were at a snapshot, in memory.

        Raises:
            DataError: there is no such table or snapshot.
        """
        return self._at(name, first, last, snapshot_id).to_arrow()

    @contextmanager
    def create_view(
        self,
        connection: duckdb.DuckDBPyConnection,
        view: str,
        name: str,
        first: dt.date,
        last: dt.date,
        snapshot_id: int | None = None,
    ) -> Iterator[None]:
        """DuckDB's `view` has the rows of the partitions `first`..`last`, for as long as the block lasts.

        Read from the files themselves, so memory does not grow with the partitions.

        Raises:
            DataError: there is no such table or snapshot.
        """
        with views.create_scan_view(connection, view, self._at(name, first, last, snapshot_id)):
            yield

    @contextmanager
    def open_files(
        self, name: str, first: dt.date, last: dt.date, snapshot_id: int | None = None
    ) -> Iterator[tuple[list[str], pa.Schema]]:
        """Parquet files on this machine with the rows of `first`..`last`, and their columns as of the snapshot.

        There for as long as the block lasts. A file may lack a column (it is null), or have it narrower.

        Raises:
            DataError: there is no such table or snapshot.
        """
        scan = self._at(name, first, last, snapshot_id)
        with views.open_files(scan) as paths:
            yield paths, views.read_schema(scan)

    def read_schema(self, name: str) -> pa.Schema:
        """The table's columns.

        Raises:
            DataError: there is no such table.
        """
        return evolution.to_iceberg_schema(self._table(name).schema().as_arrow())

    def count_rows_by_day(self, name: str) -> dict[dt.date, int]:
        """Row count of every partition that has rows; empty where there is no such table."""
        table = self._found(name)
        if table is None or table.current_snapshot() is None:
            return {}
        counts: dict[dt.date, int] = {}
        for row in table.inspect.partitions().select(["partition", "record_count"]).to_pylist():
            if row["record_count"]:
                day = row["partition"][PARTITION]
                counts[day] = counts.get(day, 0) + row["record_count"]
        return counts

    def count_rows_of_days(self, name: str, days: Sequence[dt.date]) -> dict[dt.date, int]:
        """Row count of those partitions of `days` that have rows, from the metadata of these alone."""
        if not days or not self.catalog.table_exists((NAMESPACE, name)):
            return {}
        counts: dict[dt.date, int] = {}
        for task in self._table(name).scan(row_filter=In(PARTITION, [day.isoformat() for day in days])).plan_files():
            day = _EPOCH + dt.timedelta(task.file.partition[0])
            counts[day] = counts.get(day, 0) + task.file.record_count
        return counts

    def pin_window(self, name: str, first: dt.date, last: dt.date) -> int:
        """The oldest snapshot id since which no partition in `first`..`last` was written.

        So a window keeps its id while other days arrive, and what is derived from it is computed once.

        Raises:
            DataError: the table does not exist or is empty.
        """
        chosen = history.find_pin(self._table(name), first, last)
        if chosen is None:
            raise DataError(f"table {name} is empty.", "Ingest and validate first.")
        return int(chosen.snapshot_id)

    def find_versions(self, name: str, days: Collection[dt.date]) -> dict[dt.date, str]:
        """Of each of `days` that was written, by what: equal where the rows are; empty where there is no such table."""
        table = self._found(name)
        return history.find_versions(table, days) if table else {}

    def _at(self, name: str, first: dt.date, last: dt.date, snapshot_id: int | None) -> DataScan:
        table = self._table(name)
        if snapshot_id is not None and table.snapshot_by_id(snapshot_id) is None:
            raise DataError(f"table {name} has no snapshot {snapshot_id}: it was expired, or belongs to another lake.")
        return _scan(table, first, last, snapshot_id)

    def _found(self, name: str) -> Table | None:
        try:
            return self.catalog.load_table((NAMESPACE, name))
        except NoSuchTableError:
            return None

    def _table(self, name: str) -> Table:
        table = self._found(name)
        if table is None:
            raise DataError(f"the lake has no table {name}.", "Ingest and validate first.")
        return table

    def _ensure(self, name: str, schema: pa.Schema, parts: Sequence[str] = ()) -> None:
        """Makes the table with its partition column, and those of `parts`, unless it is there."""
        identifier = (NAMESPACE, name)
        if self.catalog.table_exists(identifier):
            return
        try:
            making = self.catalog.create_table_transaction(identifier, schema, properties=TABLE_PROPERTIES)
            with making, making.update_spec() as spec:
                for column in (PARTITION, *parts):
                    spec.add_identity(column)
        except (TableAlreadyExistsError, CommitFailedException):
            return  # another process was first

    def _commit(
        self, name: str, only: BooleanExpression, day: dt.date, spool: Spool, key: Sequence[str], aside: Sequence[str]
    ) -> Commit:
        """One try: what `only` names is the spool's files, unless they say the same as it does already."""
        table = self._table(name)
        evolving, old = evolution.plan_evolution(table, spool.schema, day), table.scan(row_filter=only)
        had = bool(views.list_files(old))
        if had and not evolving.lines() and history.find_digest(table, day) == spool.digest:
            return _unchanged(table, day, spool)
        changes = differences.count_changes(old, spool, key, aside) if had else Changes(added=spool.rows)
        if not changes and not evolving.lines():
            return _unchanged(table, day, spool)
        mark = {PARTITION_PROPERTY: day.isoformat(), DIGEST_PROPERTY: spool.digest}
        with CachingTransaction(table) as transaction:
            if table.properties.get(RETRIES) != "0":
                transaction.set_properties({RETRIES: "0"})
            evolving.apply(transaction)
            if had:
                transaction.delete(only, snapshot_properties=mark)
            transaction.add_files(spool.paths, snapshot_properties=mark, check_duplicate_files=False)
        spool.kept = True
        written = table.current_snapshot()
        assert written is not None
        return Commit(written.snapshot_id, True, spool.rows, changes, evolving.lines())


def _only(day: dt.date, part: Mapping[str, str] = _WHOLE) -> BooleanExpression:
    return reduce(And, (EqualTo(name, value) for name, value in part.items()), EqualTo(PARTITION, day.isoformat()))


def _scan(table: Table, first: dt.date, last: dt.date, snapshot_id: int | None = None) -> DataScan:
    between = And(GreaterThanOrEqual(PARTITION, first.isoformat()), LessThanOrEqual(PARTITION, last.isoformat()))
    return table.scan(row_filter=between, snapshot_id=snapshot_id)


def _unchanged(table: Table, day: dt.date, spool: Spool) -> Commit:
    """The snapshot is the one that wrote the partition, as far as it is known: other days do not change it."""
    written = history.find_last_write(table, day) or table.current_snapshot()
    assert written is not None
    return Commit(written.snapshot_id, False, spool.rows)


def _embedded() -> dict[str, str]:
    """Properties of the SQLite catalog under LEEWAY_HOME; none where pyiceberg's configuration names a catalog."""
    if Config().get_catalog_config(NAMESPACE):
        return {}
    folder = settings().home / "lake"
    folder.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}
