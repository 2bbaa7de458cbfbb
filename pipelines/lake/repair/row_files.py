"""Restore lost data files with the same bytes at the same location. No commit is made, so no snapshot changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from pipelines.lake import storage
from pipelines.lake.check.findings import Finding
from pipelines.lake.check.row_content import find_problem
from pipelines.lake.check.table_files import RowFile
from pipelines.lake.repair.row_sources import RowSource
from pipelines.system.log import log
from pipelines.system.temporary_folders import make_temporary_folder


def restore_row_file(io: FileIO, finding: Finding, file: RowFile, row_sources: Sequence[RowSource]) -> Finding | None:
    """Restore a lost file from the first source that has its content; return the finding, or None if no source has it.

    A file whose digest is not known is restored only from a backup, and only if the copy has the file size, the number
    of rows and the column sizes that the manifest records.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    for row_source in row_sources:
        with make_temporary_folder() as folder:
            paths = row_source.write_files(finding, folder)
            if len(paths) == len(finding.group) and _have_lost_content(paths, finding, file):
                storage.put_file(io, finding.location, paths[finding.group.index(finding.location)])
                log.info("%s: restored from %s", finding.describe(), row_source.name)
                return replace(finding, restored_from=row_source.name)
    return None


def _have_lost_content(paths: Sequence[Path], finding: Finding, file: RowFile) -> bool:
    """Return whether the copies have the lost content.

    `paths` are copies of the files of `finding.group`, which were written together, in the same order. The digest is
    over all of them. If it is not known, only the copy of the lost file is compared.
    """
    if finding.digest:
        return storage.compute_digest(PyArrowFileIO(), map(str, paths)) == finding.digest
    path = paths[finding.group.index(finding.location)]
    has_size = path.stat().st_size == file.data_file.file_size_in_bytes
    return has_size and find_problem(PyArrowFileIO(), file.data_file, str(path)) is None
