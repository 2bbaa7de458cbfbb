"""Define a pyiceberg transaction and a catalog that stay fast when a table has many snapshots.

pyiceberg 0.12 copies all snapshots each time it changes a table's metadata, and parses the metadata file, which lists
all snapshots, each time it loads a table. With a snapshot for each partition, both took most of the time of a write.
"""

from __future__ import annotations

from typing import Any

from cachetools import LRUCache
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import CommitTableResponse, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry
from pyiceberg.table.update import TableRequirement, TableUpdate

MAX_CACHED_VERSIONS = 16
"""Versions of tables' metadata that a catalog keeps in memory."""


def _return_self(self: Any, _: Any = None) -> Any:
    return self


for _model in (Snapshot, SnapshotLogEntry, MetadataLogEntry):
    # These models are frozen, so that a copy of the metadata may share them: 365 snapshots take 35 ms to copy.
    type.__setattr__(_model, "__deepcopy__", _return_self)


class CachingTransaction(Transaction):
    """A transaction that computes `table_metadata` once for each change, not 17 times in a commit."""

    _cache: tuple[tuple[int, int], Any] = ((0, 0), None)

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the changes so far."""
        key = (id(self._table.metadata), len(self._updates))
        if self._cache[0] != key:
            self._cache = (key, super().table_metadata)
        return self._cache[1]


class CachingSqlCatalog(SqlCatalog):
    """A catalog that parses each version of a table's metadata once. A version's file never changes."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._versions: LRUCache[str, Table] = LRUCache(MAX_CACHED_VERSIONS)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit updates to a table, and keep its new version."""
        response = super().commit_table(table, requirements, updates)
        self._versions[response.metadata_location] = Table(
            table.name(), response.metadata, response.metadata_location, table.io, self
        )
        return response

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        version = self._versions.get(orm_table.metadata_location or "")
        if version is None:
            version = super()._convert_orm_to_iceberg(orm_table)
            self._versions[version.metadata_location] = version
        return Table(version.name(), version.metadata, version.metadata_location, version.io, self)
