"""List the data files of a table, and cache the manifests that were read: a manifest file never changes.

pyiceberg 0.12 reads all manifests of a table each time, and evaluates the filter for each file, which takes half a
millisecond a file.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table

from pipelines.lake.commits import DATE_COLUMN

_EPOCH = dt.date(1970, 1, 1)
"""Iceberg stores a date as the number of days since this day."""


@dataclass(frozen=True)
class FileEntry:
    """A data file of a table."""

    location: str
    partition: Mapping[str, Any]
    """Maps each column by which the table is partitioned to its value; `date` is a date."""
    rows: int
    """Number of rows in the file; another engine may have deleted some of them by a delete file."""


class ManifestReader:
    """Reads the manifests of one table, and caches those of the last call."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[FileEntry, ...]] = {}
        """Maps the path of each manifest file to its data files."""

    def list_files(self, table: Table, first: dt.date = dt.date.min) -> list[FileEntry]:
        """List the data files of the table's current snapshot whose `date` is `first` or later, oldest manifest first.

        Manifests without such files are not read.
        """
        manifests = [manifest for manifest in _list_manifests(table) if _find_last_date(table, manifest) >= first]
        known_entries, self._entries = self._entries, {}
        for manifest in reversed(manifests):
            path = manifest.manifest_path
            self._entries[path] = (
                known_entries[path] if path in known_entries else tuple(_read_entries(table, manifest))
            )
        entries = (entry for entries in self._entries.values() for entry in entries)
        return [entry for entry in entries if entry.partition[DATE_COLUMN] >= first]


def has_deletes(table: Table) -> bool:
    """Return whether another engine deleted rows by delete files. If so, data files contain rows that are deleted."""
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot else []
    return any(manifest.content is ManifestContent.DELETES for manifest in manifests)


def _list_manifests(table: Table) -> list[ManifestFile]:
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot else []
    return [manifest for manifest in manifests if manifest.content is ManifestContent.DATA]


def _find_last_date(table: Table, manifest: ManifestFile) -> dt.date:
    """Return the largest `date` of the files of a manifest; `date.max` if the manifest has no upper bound."""
    names = [field.name for field in table.specs()[manifest.partition_spec_id].fields]
    summary = (manifest.partitions or [])[names.index(DATE_COLUMN)] if manifest.partitions else None
    if summary is None or summary.upper_bound is None:
        return dt.date.max
    return _EPOCH + dt.timedelta(int.from_bytes(summary.upper_bound, "little", signed=True))


def _read_entries(table: Table, manifest: ManifestFile) -> Iterator[FileEntry]:
    names = [field.name for field in table.specs()[manifest.partition_spec_id].fields]
    for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
        file = entry.data_file
        values = {name: file.partition[index] for index, name in enumerate(names)}
        values[DATE_COLUMN] = _EPOCH + dt.timedelta(values[DATE_COLUMN])
        yield FileEntry(file.file_path, values, file.record_count)
