"""The lake: Apache Iceberg tables, written a partition (a day) at a time.

Every write of a partition is one commit: readers see the old partition or the new one, never a mixture, and a
writer that dies leaves the old one. The catalog is SQLite under LEEWAY_HOME unless pyiceberg's own configuration
(`PYICEBERG_CATALOG__LEEWAY__URI` and friends, or ~/.pyiceberg.yaml) names another one: Glue, REST, PostgreSQL.
"""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError, ValidationException
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.config import Config
from sqlalchemy.exc import IntegrityError, OperationalError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from pipelines.errors import ConflictError, DataError
from pipelines.settings import settings

NAMESPACE = "leeway"
PARTITION = "date"
"""Name of the partition column of every table."""
TOUCHED = "leeway.partition"
"""Snapshot property: the partition that a commit wrote."""
RETRY_S = 120.0
"""Longest time that a commit is tried again while others commit to the same table."""
TABLE_PROPERTIES = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


@dataclass(frozen=True)
class Commit:
    """What a write did: the table's snapshot that holds the partition, and whether this write made it."""

    snapshot_id: int
    changed: bool


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
        for attempt in _patiently():
            with attempt:
                catalog = load_catalog(NAMESPACE, **_embedded())
                catalog.create_namespace_if_not_exists(NAMESPACE)
                return cls(catalog)
        raise AssertionError("tenacity returns or raises")

    def write(self, name: str, day: dt.date, rows: pa.Table) -> Commit:
        """The partition `day` of table `name` holds exactly `rows`. Idempotent: equal rows commit nothing.

        Args:
            name: the table; made with the rows' schema where there is none.
            day: the partition.
            rows: all of them with `date` = `day`, in the order that they are to be read.

        Raises:
            DataError: rows of another day, or columns that the table does not have. A retry cannot help.
            ConflictError: other writers kept winning for `RETRY_S`. A retry can help.
        """
        _demand_only(day, rows)
        self._ensure(name, rows.schema)
        for attempt in _patiently():
            with attempt:
                return self._write_once(name, day, rows)
        raise AssertionError("tenacity returns or raises")

    def read(self, name: str, day: dt.date) -> pa.Table:
        """The rows of one partition; no rows where it was never written.

        Raises:
            DataError: there is no such table.
        """
        return _rows_of(self._table(name), day)

    def window(self, name: str, first: dt.date, last: dt.date, snapshot_id: int) -> pa.Table:
        """The rows of the partitions `first`..`last` (both included) as they were at a snapshot.

        Raises:
            DataError: there is no such table or snapshot.
        """
        table = self._table(name)
        if table.snapshot_by_id(snapshot_id) is None:
            raise DataError(f"table {name} has no snapshot {snapshot_id}: it was expired, or belongs to another lake.")
        between = And(GreaterThanOrEqual(PARTITION, first.isoformat()), LessThanOrEqual(PARTITION, last.isoformat()))
        return table.scan(row_filter=between, snapshot_id=snapshot_id).to_arrow()

    def partitions(self, name: str) -> dict[dt.date, int]:
        """Row count of every partition that has rows; empty where there is no such table."""
        try:
            found = self._table(name).inspect.partitions().select(["partition", "record_count"]).to_pylist()
        except DataError:
            return {}
        return {row["partition"][PARTITION]: row["record_count"] for row in found if row["record_count"]}

    def pin(self, name: str, first: dt.date, last: dt.date) -> int:
        """The oldest snapshot id since which no partition in `first`..`last` was written.

        So a window keeps its id while other days arrive, and what is derived from it is computed once.

        Raises:
            DataError: the table does not exist or is empty.
        """
        table = self._table(name)
        snapshot = table.current_snapshot()
        if snapshot is None:
            raise DataError(f"table {name} is empty.", "Ingest and validate first.")
        while not _touches(snapshot, first, last):
            older = snapshot.parent_snapshot_id and table.snapshot_by_id(snapshot.parent_snapshot_id)
            if not older:
                break
            snapshot = older
        return int(snapshot.snapshot_id)

    def _table(self, name: str) -> Table:
        try:
            return self.catalog.load_table((NAMESPACE, name))
        except NoSuchTableError:
            raise DataError(f"the lake has no table {name}.", "Ingest and validate first.") from None

    def _ensure(self, name: str, schema: pa.Schema) -> None:
        """Makes the table with its partition column, unless it is there."""
        identifier = (NAMESPACE, name)
        if self.catalog.table_exists(identifier):
            return
        try:
            making = self.catalog.create_table_transaction(identifier, schema, properties=TABLE_PROPERTIES)
            with making, making.update_spec() as spec:
                spec.add_identity(PARTITION)
        except (TableAlreadyExistsError, CommitFailedException):
            return  # another process was first

    def _write_once(self, name: str, day: dt.date, rows: pa.Table) -> Commit:
        table = self._table(name)
        try:
            rows = rows.cast(table.schema().as_arrow())
        except (ValueError, pa.ArrowException) as error:
            raise DataError(f"partition {day} does not fit table {name}: {error}") from None
        head = table.current_snapshot()
        if head is not None and _rows_of(table, day).equals(rows):
            return Commit(head.snapshot_id, changed=False)
        mark = {TOUCHED: day.isoformat()}
        with warnings.catch_warnings():
            # pyiceberg 0.12 warns where there is nothing to overwrite: the usual case of a new partition.
            warnings.filterwarnings("ignore", "Delete operation did not match", UserWarning)
            table.overwrite(rows, overwrite_filter=EqualTo(PARTITION, day.isoformat()), snapshot_properties=mark)
        written = table.current_snapshot()
        assert written is not None
        return Commit(written.snapshot_id, changed=True)


def _rows_of(table: Table, day: dt.date) -> pa.Table:
    return table.scan(row_filter=EqualTo(PARTITION, day.isoformat())).to_arrow().cast(table.schema().as_arrow())


def _demand_only(day: dt.date, rows: pa.Table) -> None:
    others = pc.unique(rows[PARTITION]).to_pylist() if PARTITION in rows.column_names else []
    if others != [day]:
        raise DataError(f"partition {day} must hold rows of that day only, but holds {others[:5]!s}.")


def _touches(snapshot: Snapshot, first: dt.date, last: dt.date) -> bool:
    """Whether a commit wrote into the window. One without our mark is somebody else's: it may have."""
    mark = snapshot.summary.additional_properties.get(TOUCHED) if snapshot.summary else None
    return mark is None or first <= dt.date.fromisoformat(mark) <= last


def _embedded() -> dict[str, str]:
    """Properties of the SQLite catalog under LEEWAY_HOME; none where pyiceberg's configuration names a catalog."""
    if Config().get_catalog_config(NAMESPACE):
        return {}
    folder = settings().home / "lake"
    folder.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}


def _patiently() -> Iterable:  # type: ignore[type-arg]
    """Attempts at a commit, with random waits between them, until `RETRY_S` is over."""
    return Retrying(
        retry=retry_if_exception(_may_pass),
        stop=stop_after_delay(RETRY_S),
        wait=wait_random_exponential(multiplier=0.05, max=3.0),
        retry_error_callback=lambda state: _give_up(state.outcome.exception() if state.outcome else None),
    )


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, OperationalError):
        # "exists": another process is making the catalog's tables at this moment.
        told = str(error.orig)
        return isinstance(error.orig, sqlite3.OperationalError) and ("locked" in told or "already exists" in told)
    # IntegrityError: another made the namespace or the table first. ValidationException: another committed the same
    # partition first; on the next attempt it is read again, and written over.
    return isinstance(error, (CommitFailedException, IntegrityError, ValidationException))


def _give_up(error: BaseException | None) -> None:
    raise ConflictError(f"the lake's catalog stayed busy for {RETRY_S:.0f} s in process {os.getpid()}: {error}.")
