"""Find the last version of a table's metadata that was committed, without a catalog."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from pipelines.lake import storage
from pipelines.lake.check.checking import find_version
from pipelines.lake.check.table_files import list_table_files
from pipelines.lake.warehouse import get_version
from pipelines.system.log import log


def find_last_version(io: FileIO, table: str, locations: Sequence[str]) -> Table | None:
    """Return the version with the highest number that can be read; None where none can.

    Of several versions with this number, the one whose files are there and that has the last snapshot is returned.
    pyiceberg 0.12 leaves the metadata file of a commit that lost a race. It removes the manifests of such a commit, but
    a commit that only expired snapshots has none.

    Args:
        io: reads the files.
        table: name of the table.
        locations: of its metadata files, the newest last.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    for number, group in groupby(reversed(locations), key=get_version):
        versions = [version for location in group if (version := find_version(io, location, table))]
        if len(versions) > 1:
            log.warning("%s: version %d has %d files of metadata", table, number, len(versions))
            return max(versions, key=lambda version: (_is_whole(version), version.metadata.last_sequence_number))
        if versions:
            return versions[0]
    return None


def _is_whole(version: Table) -> bool:
    """Return whether the manifests and the files of rows of the version's current snapshot exist."""
    files = list_table_files(version, includes_older=False)
    sizes = {location: file.data_file.file_size_in_bytes for location, file in files.row_files.items()}
    return not files.findings and all(
        storage.find_size(version.io, location) == size for location, size in sizes.items()
    )
