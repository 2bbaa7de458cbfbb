"""A table of the lake whose partitions are months, changed by compare and swap.

For tables with a few rows a day: a year of them is a dozen files, which are read in a moment.
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo
from pyiceberg.table import Table

from pipelines.lake.catalog import create_table, find_table, load_table, open_catalog
from pipelines.lake.commits import PARTITION, PARTITION_PROPERTY, retry_conflicts
from pipelines.lake.history import forget_snapshots

T = TypeVar("T")
ALL_COLUMNS = ("*",)


def get_month(moment: dt.datetime) -> dt.date:
    """Return the first day of the month of a moment, in UTC: the partition of a row of that moment."""
    return get_month_of_day(moment.astimezone(dt.UTC).date())


def get_month_of_day(day: dt.date) -> dt.date:
    """Return the first day of the month of a day: the partition of a row of that day."""
    return day.replace(day=1)


class TableVersion:
    """The table as one attempt loaded it: what the attempt reads and what it writes belong to this version."""

    def __init__(self, table: Table, schema: pa.Schema) -> None:
        self._table, self._schema = table, schema
        self.is_replaced = False
        """Whether this attempt committed a month."""

    def read(self, where: BooleanExpression) -> pa.Table:
        """Return the rows that match, in memory."""
        return self._table.scan(row_filter=where).to_arrow().select(self._schema.names).cast(self._schema)

    def read_month(self, month: dt.date) -> pa.Table:
        """Return the rows of a month, in memory."""
        return self.read(EqualTo(PARTITION, month.isoformat()))

    def replace_month(self, month: dt.date, rows: pa.Table) -> None:
        """Write all rows of a month, as one commit and one file, in place of those that it had.

        Args:
            month: its first day.
            rows: in the table's schema; `date` is `month` in all of them.

        Raises:
            CommitFailedException: the table is no longer at the version that was loaded.
        """
        where = EqualTo(PARTITION, month.isoformat())
        with warnings.catch_warnings():
            # pyiceberg 0.12 warns where there is nothing to overwrite: a new month.
            warnings.filterwarnings("ignore", "Delete operation did not match", UserWarning)
            # pyiceberg asserts with AssertRefSnapshotId that the table is at the loaded snapshot. Its own retries,
            # which would skip that check, are off in all tables of the lake.
            self._table.overwrite(
                rows, overwrite_filter=where, snapshot_properties={PARTITION_PROPERTY: month.isoformat()}
            )
        self.is_replaced = True

    def forget_snapshots(self) -> None:
        """Expire the snapshots before the last one, where there are many."""
        forget_snapshots(self._table)


class MonthTable:
    """One table of months. Cheap to make; not to be shared by threads.

    Args:
        name: of the table.
        schema: its columns, `date` (the month's first day) among them.
        catalog: that has the table; the configured one where it is not given.
        keeps_snapshots: whether old snapshots stay. Without them, commits stay fast however many there were.

    Raises:
        ConflictError: the lake's catalog stayed locked. A retry can help.
    """

    def __init__(
        self, name: str, schema: pa.Schema, catalog: Catalog | None = None, *, keeps_snapshots: bool = True
    ) -> None:
        self.name, self.schema, self.catalog = name, schema, catalog or open_catalog()
        self._keeps_snapshots = keeps_snapshots

    def create(self) -> None:
        """Create the table, unless it exists. Idempotent.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        for attempt in retry_conflicts():
            with attempt:
                create_table(self.catalog, self.name, self.schema)

    def read(self, where: BooleanExpression | None = None, columns: Sequence[str] = ALL_COLUMNS) -> pa.Table:
        """Return the rows that match, in memory; no rows where there is no such table.

        Args:
            where: which rows; all of them where it is not given.
            columns: which columns; all of them where they are not given.
        """
        table = find_table(self.catalog, self.name)
        if table is None:
            names = self.schema.names if tuple(columns) == ALL_COLUMNS else columns
            return self.schema.empty_table().select(list(names))
        return table.scan(row_filter=where or AlwaysTrue(), selected_fields=tuple(columns)).to_arrow()

    def update(self, change: Callable[[TableVersion], T]) -> T:
        """Call `change` with the table's current version, again where another writer committed first.

        Args:
            change: reads from the version that it is given, and replaces at most one month. It is called for each
                attempt, so it must change nothing else.

        Returns:
            What the last call returned.

        Raises:
            ConflictError: other writers kept winning. A retry can help.
        """
        self.create()
        for attempt in retry_conflicts():
            with attempt:
                version = self._load()
                result = change(version)
        if version.is_replaced and not self._keeps_snapshots:
            version.forget_snapshots()
        return result

    def _load(self) -> TableVersion:
        return TableVersion(load_table(self.catalog, self.name), self.schema)
