"""Write lost manifest lists and manifests again, from other manifests and the data files.

A file is written only if it agrees with what is known about the lost file. A manifest list must give the totals of the
snapshot's summary. A manifest must have the recorded length, and list a file whose content has the commit's digest; if
this digest is not known, the content must have the digest that is part of the file's name, and the recorded number of
rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO, parquet_file_to_data_file
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    construct_partition_summaries,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.lake import storage
from pipelines.lake.check.findings import Finding
from pipelines.lake.check.table_files import TableFiles, describe_read_error, read_summary
from pipelines.lake.commits import DATE_COLUMN, DIGEST_PROPERTY, PARTITION_PROPERTY
from pipelines.lake.digest_files import read_digest_in_name
from pipelines.partitions import get_date, parse_partition
from pipelines.system.log import log
from pipelines.system.temporary_folders import make_temporary_folder

SOURCE = "the existing manifests and files"
"""Value of `Finding.restored_from`: the source of the restored content."""
LIST_NAME = re.compile(r"snap-\d+-\d+-(?P<commit>[0-9a-f-]{36})\.avro$")
"""Name of a manifest list. The manifests that the commit wrote have the same UUID in their names."""


def rebuild_manifest_list(table: Table, finding: Finding) -> Finding | None:
    """Write a lost manifest list again, at its location; return the finding, or None if its content is not certain.

    The list has the manifests that the commit wrote, and those manifests of the parent snapshot whose files the commit
    neither rewrote nor deleted.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    snapshot, match = table.snapshot_by_id(finding.snapshot_id), LIST_NAME.search(finding.location)
    if snapshot is None or match is None:
        return None
    names = storage.list_files(table.io, f"{table.location()}/metadata")
    own_paths = sorted(name for name in names if name.rpartition("/")[2].startswith(f"{match['commit']}-m"))
    try:
        parent_manifests = _read_parent_manifests(table, snapshot, list(names))
        own_manifests = [_describe_manifest(table, path, snapshot) for path in own_paths]
        replaced_files = {path for _, paths in own_manifests for path in paths}
        manifests = [manifest for manifest, _ in own_manifests]
        manifests += _list_kept_manifests(table, parent_manifests, replaced_files)
        if not own_manifests or not _has_totals(table, manifests, snapshot):
            return None
    except Exception as error:
        _log_reason(finding, error)
        return None
    with make_temporary_folder() as folder:
        path = folder / "list"
        with write_manifest_list(
            table.metadata.format_version,
            PyArrowFileIO().new_output(str(path)),
            snapshot.snapshot_id,
            snapshot.parent_snapshot_id,
            snapshot.sequence_number,
            _get_compression(table),
        ) as writer:
            writer.add_manifests(manifests)
        storage.put_file(table.io, finding.location, path)
    return replace(finding, restored_from=SOURCE)


def rebuild_manifest(files: TableFiles, finding: Finding) -> Finding | None:
    """Write a lost manifest again, at its location. Only a manifest that lists one added data file can be restored.

    The data file is the one in the commit's partition that has the commit's digest. If the digest is not known, because
    the commit's snapshot has expired, it is the only unlisted file with the right number of rows whose content has the
    digest that is part of the file's name.

    Returns:
        The finding; None if the content of the manifest is not certain.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    table, snapshot = files.table, files.table.snapshot_by_id(finding.snapshot_id)
    if snapshot is None:
        return None
    try:
        listed_manifests = read_manifest_list(table.io.new_input(snapshot.manifest_list))
        manifest = next(manifest for manifest in listed_manifests if manifest.manifest_path == finding.location)
        location = _find_row_file(files, manifest)
        data_file = parquet_file_to_data_file(table.io, table.metadata, location) if location else None
    except Exception as error:
        _log_reason(finding, error)
        return None
    if data_file is None:
        return None
    with make_temporary_folder() as folder:
        path = folder / "manifest"
        _write_manifest(table, manifest, data_file, path)
        if path.stat().st_size != manifest.manifest_length:
            return None
        storage.put_file(table.io, finding.location, path)
    return replace(finding, restored_from=SOURCE)


def _log_reason(finding: Finding, error: Exception) -> None:
    """Log why a lost file is not written again: another file of the table cannot be read, or is not as expected.

    Raises:
        ServiceError: the reason is that the storage does not answer. A retry can help.
    """
    detail = describe_read_error(error)[1]
    log.warning("%s: %s is not written again: a file of the table %s", finding.table, finding.location, detail)


def _read_parent_manifests(table: Table, snapshot: Snapshot, names: Sequence[str]) -> list[ManifestFile]:
    """Read the manifest list of the parent, even if the parent has expired; empty if there is no parent."""
    if snapshot.parent_snapshot_id is None:
        return []
    prefix = f"snap-{snapshot.parent_snapshot_id}-"
    # There must be exactly one such file; if not, the ValueError is logged as the reason.
    (location,) = [name for name in names if name.rpartition("/")[2].startswith(prefix)]
    return list(read_manifest_list(table.io.new_input(location)))


def _describe_manifest(table: Table, path: str, snapshot: Snapshot) -> tuple[ManifestFile, set[str]]:
    """Build the entry of a manifest list for a manifest that the snapshot wrote.

    Returns:
        The entry, and the paths of the data files that the manifest lists as existing or deleted, not as added.
    """
    with AvroFile[ManifestEntry](
        table.io.new_input(path),
        MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        spec_id, entries = int(reader.header.meta["partition-spec-id"]), list(reader)
    added_entries, existing_entries, deleted_entries = (
        [entry for entry in entries if entry.status == status]
        for status in (ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED)
    )
    sequence_numbers = [entry.sequence_number for entry in existing_entries]
    sequence_numbers += [snapshot.sequence_number] if added_entries else []
    manifest = ManifestFile.from_args(
        manifest_path=path,
        manifest_length=len(table.io.new_input(path)),
        partition_spec_id=spec_id,
        content=ManifestContent.DATA,
        sequence_number=snapshot.sequence_number,
        min_sequence_number=min(filter(None, sequence_numbers), default=snapshot.sequence_number),
        added_snapshot_id=snapshot.snapshot_id,
        added_files_count=len(added_entries),
        added_rows_count=_count_rows(added_entries),
        existing_files_count=len(existing_entries),
        existing_rows_count=_count_rows(existing_entries),
        deleted_files_count=len(deleted_entries),
        deleted_rows_count=_count_rows(deleted_entries),
        partitions=construct_partition_summaries(
            table.metadata.specs()[spec_id], table.schema(), [entry.data_file.partition for entry in entries]
        ),
        key_metadata=None,
    )
    return manifest, {entry.data_file.file_path for entry in [*existing_entries, *deleted_entries]}


def _count_rows(entries: Sequence[ManifestEntry]) -> int:
    return sum(entry.data_file.record_count for entry in entries)


def _list_kept_manifests(
    table: Table, parent_manifests: Sequence[ManifestFile], replaced_files: set[str]
) -> list[ManifestFile]:
    """List the parent's manifests that have files and that the commit kept: it replaced none of their files.

    Args:
        table: table of the manifests.
        parent_manifests: manifests of the parent snapshot.
        replaced_files: data files that the commit moved to a manifest of its own, or deleted.
    """
    return [
        manifest
        for manifest in parent_manifests
        if _has_files(manifest) and not _list_files(table, manifest) & replaced_files
    ]


def _has_files(manifest: ManifestFile) -> bool:
    return bool(manifest.has_added_files() or manifest.has_existing_files())


def _list_files(table: Table, manifest: ManifestFile) -> set[str]:
    return {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}


def _has_totals(table: Table, manifests: Sequence[ManifestFile], snapshot: Snapshot) -> bool:
    """Return whether the manifests list as many files and rows as the snapshot's summary says."""
    entries = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io)]
    totals = {
        "total-data-files": str(len(entries)),
        "total-records": str(_count_rows(entries)),
    }
    summary = read_summary(snapshot)
    return all(summary.get(name) == number for name, number in totals.items())


def _find_row_file(files: TableFiles, manifest: ManifestFile) -> str:
    """Return the location of the only data file that the lost manifest listed; empty if it is not certain."""
    if manifest.existing_files_count or manifest.added_files_count != 1:
        return ""
    table = files.table
    summary = read_summary(table.snapshot_by_id(manifest.added_snapshot_id))
    folder = f"{table.location()}/data/"
    if partition := summary.get(PARTITION_PROPERTY):
        folder = f"{folder}{DATE_COLUMN}={get_date(parse_partition(partition))}"
    unused_files = [name for name in storage.list_files(table.io, folder) if name not in files.row_files]
    if digest := summary.get(DIGEST_PROPERTY):
        matching_files = [name for name in unused_files if storage.compute_digest(table.io, [name]) == digest]
    else:
        matching_files = [
            name for name in unused_files if _may_be_row_file(table, name, int(manifest.added_rows_count or 0))
        ]
    return matching_files[0] if len(matching_files) == 1 else ""


def _may_be_row_file(table: Table, location: str, rows: int) -> bool:
    """Return whether the content of a file has the digest in the file's name, and this number of rows."""
    if storage.compute_digest(table.io, [location]) != read_digest_in_name(location):
        return False
    return bool(parquet_file_to_data_file(table.io, table.metadata, location).record_count == rows)


def _write_manifest(table: Table, manifest: ManifestFile, data_file: DataFile, path: Path) -> None:
    io: FileIO = PyArrowFileIO()
    with write_manifest(
        table.metadata.format_version,
        table.metadata.specs()[manifest.partition_spec_id],
        table.schema(),
        io.new_output(str(path)),
        manifest.added_snapshot_id,
        _get_compression(table),
    ) as writer:
        writer.add(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=manifest.added_snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=data_file,
            )
        )


def _get_compression(table: Table) -> str:
    return str(table.properties.get("write.avro.compression-codec", "gzip"))
