"""Find the last committed version of a table's metadata without a catalog."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from pipelines.lake import storage
from pipelines.lake.check.lake_check import find_table_version
from pipelines.lake.check.table_files import list_table_files
from pipelines.lake.warehouse import get_version
from pipelines.system.log import log


def find_last_version(io: FileIO, table: str, locations: Sequence[str]) -> Table | None:
    """Return the table at its readable version with the highest number; None if no version can be read.

    Several metadata files can have the same number: pyiceberg 0.12 leaves the metadata file of a commit that failed
    because another process committed first. A file whose manifests and data files all exist is preferred, because
    pyiceberg deletes the manifests of a failed commit. A failed commit that only expired snapshots wrote no
    manifests, so none was deleted, and its file is preferred, too. If several files are preferred, the one with the
    newest snapshot is returned.

    Args:
        io: reads the files.
        table: name of the table.
        locations: locations of the table's metadata files, the newest last.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    for number, group in groupby(reversed(locations), key=get_version):
        versions = [version for location in group if (version := find_table_version(io, location, table))]
        if len(versions) > 1:
            log.warning("%s: version %d has %d metadata files", table, number, len(versions))
            return max(versions, key=lambda version: (_is_complete(version), version.metadata.last_sequence_number))
        if versions:
            return versions[0]
    return None


def _is_complete(version: Table) -> bool:
    """Return whether all files of the version's current snapshot exist, with the recorded sizes."""
    files = list_table_files(version, includes_older=False)
    sizes = {location: file.data_file.file_size_in_bytes for location, file in files.row_files.items()}
    return not files.findings and all(
        storage.find_size(version.io, location) == size for location, size in sizes.items()
    )
