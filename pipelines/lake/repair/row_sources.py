"""Find copies of lost data files: define the interface `RowSource`, and the lake as such a source.

`row_files` uses a copy only if it has the digest of the lost file, or, if the digest is not known, its sizes and number
of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pyiceberg.io import FileIO

from pipelines.lake import storage
from pipelines.lake.check.findings import Finding
from pipelines.lake.check.table_files import TableFiles
from pipelines.lake.digest_files import read_digest_in_name

FileGroup = tuple[FileIO, tuple[str, ...]]
"""The FileIO that reads a group of files, and the locations of the files, in the order of their rows."""


class RowSource(Protocol):
    """A place that may have the content of lost data files, such as a backup."""

    name: str
    """Name for log lines and reports."""

    def write_files(self, finding: Finding, folder: Path) -> Sequence[Path]:
        """Write copies of the files of `finding.group`, one of which is lost, and return them in the group's order.

        Args:
            finding: the lost file.
            folder: empty folder for the copies; the caller removes it afterwards.

        Returns:
            Files whose content the caller must check; no files if this source does not have the content.
        """


class LakeRowSource:
    """The lake as a source: a file of another snapshot or table may have the content of a lost file."""

    name = "another file of the lake"

    def __init__(self, tables: Sequence[TableFiles], lost_locations: set[str]) -> None:
        self._groups = _index_by_digest(tables, lost_locations)

    def write_files(self, finding: Finding, folder: Path) -> Sequence[Path]:
        """Copy the files whose digest is that of the lost file. Return the copies; none if no such file can be read."""
        for io, locations in self._groups.get(finding.digest, ()):
            try:
                return [
                    storage.download_file(io, location, folder / str(index)) for index, location in enumerate(locations)
                ]
            except OSError:
                continue
        return []


def _index_by_digest(tables: Sequence[TableFiles], lost_locations: set[str]) -> Mapping[str, list[FileGroup]]:
    """Return the groups of files that are not lost, by their digest."""
    groups: dict[str, list[FileGroup]] = {}
    for digest, io, locations in _list_groups(tables):
        if digest and not lost_locations.intersection(locations):
            groups.setdefault(digest, []).append((io, locations))
    return groups


def _list_groups(tables: Sequence[TableFiles]) -> Iterator[tuple[str, FileIO, tuple[str, ...]]]:
    """Yield each group of files that were written together, and each single file, with its digest."""
    for table in tables:
        for digest, files in table.group_by_snapshot():
            yield digest, table.table.io, tuple(file.location for file in files)
            for file in files:
                yield read_digest_in_name(file.location), table.table.io, (file.location,)
