"""Define a table of the lake whose partitions are months.

It is for a few rows a day: a year of rows is in twelve files, which are read quickly. A writer loads the table,
computes the new rows of a month, and commits them. If another process committed meanwhile, the writer repeats these
steps (compare and swap).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo
from pyiceberg.table import Table

from pipelines.lake.catalog import create_table, find_table, load_table, open_catalog
from pipelines.lake.commits import DATE_COLUMN, retry_conflicts
from pipelines.lake.digest_files import write_file_with_digest
from pipelines.lake.evolution import plan_new_columns
from pipelines.lake.history import expire_old_snapshots
from pipelines.lake.new_files import build_properties, commit_new_files

T = TypeVar("T")
ALL_COLUMNS = ("*",)
"""pyiceberg's selection of all columns."""


def get_month(moment: dt.datetime) -> dt.date:
    """Return the first day of the month of a moment, in UTC: the partition of a row with that moment."""
    return get_month_of_day(moment.astimezone(dt.UTC).date())


def get_month_of_day(day: dt.date) -> dt.date:
    """Return the first day of the month of a day: the partition of a row of that day."""
    return day.replace(day=1)


class TableVersion:
    """The version of the table that a writer loaded. A commit fails if it is no longer the current version."""

    def __init__(self, table: Table, schema: pa.Schema) -> None:
        self._table, self._schema = table, schema
        self.has_committed = False
        """Whether a month of the table was replaced."""

    def read(self, row_filter: BooleanExpression) -> pa.Table:
        """Return the rows that match, in memory."""
        return self._table.scan(row_filter=row_filter).to_arrow().select(self._schema.names).cast(self._schema)

    def read_month(self, month: dt.date) -> pa.Table:
        """Return the rows of a month, in memory."""
        return self.read(EqualTo(DATE_COLUMN, month.isoformat()))

    def replace_month(self, month: dt.date, rows: pa.Table) -> None:
        """Write all rows of a month, as one commit and one file, replacing its old rows.

        Args:
            month: first day of the month.
            rows: all rows of the month, in the table's schema; their `date` is `month`.

        Raises:
            CommitFailedException: the table is no longer at the version that was loaded.
        """
        row_filter = EqualTo(DATE_COLUMN, month.isoformat())
        has_rows = any(self._table.scan(row_filter=row_filter).plan_files())
        with write_file_with_digest(self._table, month, rows) as new_files:
            # pyiceberg asserts with AssertRefSnapshotId that the table is at the loaded snapshot. Its own retries,
            # which would skip that check, are off in all tables of the lake.
            commit_new_files(
                self._table, new_files, row_filter if has_rows else None, build_properties(month, new_files)
            )
        self.has_committed = True

    def expire_old_snapshots(self) -> None:
        """Expire all old snapshots if there are many; see `history.expire_old_snapshots`."""
        expire_old_snapshots(self._table)


class MonthTable:
    """A table whose partitions are months. Cheap to create; must not be shared by threads.

    Args:
        name: name of the table.
        schema: columns of the table, with `date`, the first day of the month.
        catalog: the catalog of the table; None: the configured catalog.
        keeps_old_snapshots: whether old snapshots are kept. If they are, commits become slower with each snapshot. If
            not, a commit is followed by `expire_old_snapshots`.

    Raises:
        ConflictError: the lake's catalog stayed locked. A retry can help.
    """

    def __init__(
        self, name: str, schema: pa.Schema, catalog: Catalog | None = None, *, keeps_old_snapshots: bool = True
    ) -> None:
        self.name, self.schema, self.catalog = name, schema, catalog or open_catalog()
        self._keeps_old_snapshots = keeps_old_snapshots

    def create(self) -> None:
        """Create the table, unless it exists. Idempotent.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        for attempt in retry_conflicts():
            with attempt:
                create_table(self.catalog, self.name, self.schema)

    def read(self, row_filter: BooleanExpression | None = None, columns: Sequence[str] = ALL_COLUMNS) -> pa.Table:
        """Return the rows that match, in memory; no rows if there is no such table.

        Args:
            row_filter: condition for the rows to read; None: all rows.
            columns: the columns to read; by default all.
        """
        table = find_table(self.catalog, self.name)
        if table is None:
            names = self.schema.names if tuple(columns) == ALL_COLUMNS else columns
            return self.schema.empty_table().select(list(names))
        # An earlier version of the code may have created the table with fewer columns.
        names = columns if tuple(columns) == ALL_COLUMNS else [name for name in columns if name in _list_columns(table)]
        rows = table.scan(row_filter=row_filter or AlwaysTrue(), selected_fields=tuple(names)).to_arrow()
        for column in self.schema:
            if column.name not in rows.column_names and (tuple(columns) == ALL_COLUMNS or column.name in columns):
                rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
        return rows

    def update(self, change: Callable[[TableVersion], T]) -> T:
        """Call `change` with the current version of the table; call it again if another writer committed first.

        First, columns of the schema that the table lacks are added; they are null in the old rows.

        Args:
            change: function that reads rows of the version, and replaces at most one month. It must have no other
                effect, because it may be called several times.

        Returns:
            The result of the last call.

        Raises:
            ConflictError: other writers committed first in every attempt. A retry can help.
        """
        self.create()
        for attempt in retry_conflicts():
            with attempt:
                self._add_new_columns()
                version = self._load()
                result = change(version)
        if version.has_committed and not self._keeps_old_snapshots:
            version.expire_old_snapshots()
        return result

    def _add_new_columns(self) -> None:
        """Add the columns that the table lacks, because an earlier version of the code created it. Idempotent.

        Raises:
            CommitFailedException: another writer committed first.
        """
        table = load_table(self.catalog, self.name)
        evolution = plan_new_columns(table, self.schema)
        if evolution.added:
            with table.transaction() as transaction:
                evolution.apply(transaction)

    def _load(self) -> TableVersion:
        return TableVersion(load_table(self.catalog, self.name), self.schema)


def _list_columns(table: Table) -> list[str]:
    return [column.name for column in table.schema().fields]
