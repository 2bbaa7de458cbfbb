"""Define a pyiceberg transaction and a catalog that stay fast when a table has many snapshots.

pyiceberg 0.12 copies all snapshots each time it changes a table's metadata, and parses the metadata file, which lists
all snapshots, each time it loads a table. With a snapshot for each partition, both took most of the time of a write.
"""

from __future__ import annotations

import threading
from typing import Any

from cachetools import LRUCache
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import CommitTableResponse, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry
from pyiceberg.table.update import TableRequirement, TableUpdate

MAX_CACHED_VERSIONS = 16
"""Largest number of table versions whose metadata a catalog keeps in memory."""


def _return_self(self: Any, _: Any = None) -> Any:
    return self


for _model in (Snapshot, SnapshotLogEntry):
    # pyiceberg 0.12 copies a table's metadata, with all snapshots and log entries, at each change. For 365 snapshots a
    # copy takes 6 ms; it takes 0.3 ms if the copies share these objects. They are frozen, so even threads may share
    # them.
    type.__setattr__(_model, "__deepcopy__", _return_self)


class CachingTransaction(Transaction):
    """A transaction that computes `table_metadata` once for each change, not 17 times in a commit."""

    _cache: tuple[TableMetadata | None, int, Any] = (None, 0, None)
    """The table's metadata before the transaction, the number of changes so far, and the metadata after them."""

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the changes so far."""
        base, count = self._table.metadata, len(self._updates)
        if self._cache[0] is not base or self._cache[1] != count:
            self._cache = (base, count, super().table_metadata)
        return self._cache[2]


class CachingSqlCatalog(SqlCatalog):
    """A catalog that parses each version of a table's metadata once. A version's file never changes.

    Several threads may use it. Two of them may parse the same version.
    """

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._versions: LRUCache[str, Table] = LRUCache(MAX_CACHED_VERSIONS)
        self._lock = threading.Lock()  # reading an LRUCache changes its order

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit updates to a table, and keep its new version in memory."""
        response = super().commit_table(table, requirements, updates)
        self._cache_version(Table(table.name(), response.metadata, response.metadata_location, table.io, self))
        return response

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        with self._lock:
            version = self._versions.get(orm_table.metadata_location or "")
        if version is None:
            version = super()._convert_orm_to_iceberg(orm_table)
            self._cache_version(version)
        return Table(version.name(), version.metadata, version.metadata_location, version.io, self)

    def _cache_version(self, version: Table) -> None:
        with self._lock:
            self._versions[version.metadata_location] = version
