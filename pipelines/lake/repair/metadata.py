"""Write a lost metadata file again, from the version before it and the snapshots that were committed later.

A snapshot's manifest list names its parent snapshot. So the lost snapshots are those whose parent is the last known
snapshot, and then their children. The content is certain only if no snapshot has two children. The summaries of the
lost snapshots are computed from the manifests and the data files.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest

from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, read_manifest_list
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, update_table_metadata

from pipelines.lake import storage
from pipelines.lake.check.findings import Finding
from pipelines.lake.check.table_files import describe_read_error, list_table_files
from pipelines.lake.commits import DIGEST_PROPERTY, PARTITION_PROPERTY
from pipelines.lake.history import MAX_SNAPSHOTS
from pipelines.lake.partitions import find_partition_of_file
from pipelines.lake.repair.versions import find_last_version
from pipelines.lake.views import build_sort_key
from pipelines.lake.warehouse import METADATA_SUFFIX, get_version
from pipelines.partitions import HOUR_COLUMN
from pipelines.system.log import log
from pipelines.system.temporary_folders import make_temporary_folder
from pipelines.window import Unit

SOURCE = "the version before it"
"""Value of `Finding.restored_from`: the source of the restored content."""


class _UncertainError(Exception):
    """The content of the lost file is not certain."""


@dataclass(frozen=True)
class _LostSnapshot:
    """A snapshot that no readable metadata file has, as its manifest list describes it."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    location: str
    """Location of the manifest list."""
    modified_at: dt.datetime
    """When the manifest list was written."""


def rebuild_metadata(io: FileIO, finding: Finding, versions: Sequence[str]) -> Finding | None:
    """Write a lost metadata file again, at its location, unless its content is not certain.

    Args:
        io: reads and writes the table's files.
        finding: the lost metadata file.
        versions: locations of all versions of the table's metadata, the newest last.

    Returns:
        The finding with `restored_from`; None if no file was written.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    # If the version before the lost one is lost, too, an earlier version and more snapshots give the same content.
    earlier_locations = [location for location in versions if get_version(location) < get_version(finding.location)]
    base = find_last_version(io, finding.table, earlier_locations)
    if base is None:
        return None
    try:
        metadata, operations = _attach_snapshots(base)
        commit_count = get_version(finding.location) - get_version(str(base.metadata_location))
        _require_commit_count(base, operations, commit_count)
    except _UncertainError as error:
        log.warning("%s: %s is not written again: %s", finding.table, finding.location, error)
        return None
    _write_metadata(io, metadata, finding.location)
    return replace(finding, restored_from=SOURCE)


def attach_lost_snapshots(base: Table) -> str:
    """Write a metadata file with the snapshots that were committed after `base`, if there are such snapshots.

    Returns:
        The location of the new file; that of `base` if there are no later snapshots; empty if there are, but their
        content is not certain.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    location = str(base.metadata_location)
    if not _has_lost_snapshots(base):
        return location
    try:
        metadata, operations = _attach_snapshots(base)
    except _UncertainError as error:
        log.warning("%s: the snapshots that follow %s are not attached: %s", base.name()[-1], location, error)
        return ""
    number = get_version(location) + len(operations)
    location = f"{location.rpartition('/')[0]}/{number:05d}-{uuid.uuid4()}{METADATA_SUFFIX}"
    _write_metadata(base.io, metadata, location)
    return location


def _has_lost_snapshots(base: Table) -> bool:
    modification_times = storage.list_files(base.io, f"{base.location()}/metadata")
    for location in _list_unknown_manifest_lists(base, modification_times):
        with suppress(_UncertainError):  # a killed writer left an incomplete list
            snapshot = _read_lost_snapshot(base, location, modification_times[location])
            if snapshot.parent_id == _get_current_snapshot_id(base):
                return True
    return False


def _get_current_snapshot_id(table: Table) -> int | None:
    snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot else None


def _write_metadata(io: FileIO, metadata: TableMetadata, location: str) -> None:
    """Write a metadata file atomically."""
    with make_temporary_folder() as folder:
        path = folder / location.rpartition("/")[2]
        ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(str(path)), overwrite=True)
        storage.put_file(io, location, path)


def _attach_snapshots(base: Table) -> tuple[TableMetadata, list[Operation]]:
    """Return the metadata of `base` with the snapshots that follow it, and the operation of each of these snapshots.

    Raises:
        _UncertainError: the content of a snapshot, or which snapshot follows, is not certain.
    """
    metadata, last_id, operations = base.metadata, _get_current_snapshot_id(base), list[Operation]()
    modification_times = storage.list_files(base.io, base.location())
    lost_snapshots = [
        _read_lost_snapshot(base, location, modification_times[location])
        for location in _list_unknown_manifest_lists(base, modification_times)
    ]
    while children := [snapshot for snapshot in lost_snapshots if snapshot.parent_id == last_id]:
        if len(children) > 1:
            raise _UncertainError(f"{len(children)} snapshots follow snapshot {last_id}")
        snapshot = _build_snapshot(base, children[0], metadata)
        reference = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot.snapshot_id)
        metadata = update_table_metadata(metadata, (AddSnapshotUpdate(snapshot=snapshot), reference))
        last_id = snapshot.snapshot_id
        operations.append(snapshot.summary.operation)
    _require_no_unknown_files(
        Table(base.name(), metadata, base.metadata_location, base.io, base.catalog), base, modification_times
    )
    return metadata, operations


def _require_commit_count(base: Table, operations: Sequence[Operation], commit_count: int) -> None:
    """Raise an error if this number of commits cannot have made snapshots with these operations.

    A commit that replaces rows makes two snapshots: one that deletes, and one that appends. A commit that expires
    snapshots makes none.
    """
    # A deletion and the snapshot after it may be one commit, unless that snapshot is a deletion, too.
    min_commit_count = sum(
        operation != Operation.DELETE or next_operation in (None, Operation.DELETE)
        for operation, next_operation in zip_longest(operations, operations[1:])
    )
    may_expire = _has_expired(base) or len(base.snapshots()) > MAX_SNAPSHOTS
    if not min_commit_count <= commit_count <= len(operations) + may_expire:
        raise _UncertainError(f"{commit_count} commits are lost, but they left {len(operations)} snapshots")


def _list_unknown_manifest_lists(base: Table, modification_times: Mapping[str, dt.datetime]) -> list[str]:
    """Return the locations of the manifest lists that no snapshot of `base` refers to."""
    known_lists = {snapshot.manifest_list for snapshot in base.snapshots()}
    return [
        location
        for location in modification_times
        if location.rpartition("/")[2].startswith("snap-") and location not in known_lists
    ]


def _read_lost_snapshot(base: Table, location: str, modified_at: dt.datetime) -> _LostSnapshot:
    try:
        properties = _read_avro_header(base.io, location)
        parent = properties["parent-snapshot-id"]
        return _LostSnapshot(
            int(properties["snapshot-id"]),
            None if parent == "null" else int(parent),
            int(properties["sequence-number"]),
            location,
            modified_at,
        )
    except Exception as error:
        raise _UncertainError(f"{location} {describe_read_error(error)[1]}") from None


def _read_avro_header(io: FileIO, location: str) -> dict[str, str]:
    """Return the properties in the header of an Avro file: a manifest list or a manifest."""
    with AvroFile(io.new_input(location)) as reader:
        return dict(reader.header.meta)


def _build_snapshot(base: Table, lost_snapshot: _LostSnapshot, metadata: TableMetadata) -> Snapshot:
    """Build a lost snapshot; its summary is computed from its manifests and files."""
    live_entries: list[ManifestEntry] = []
    own_entries: list[ManifestEntry] = []
    try:
        for manifest in read_manifest_list(base.io.new_input(lost_snapshot.location)):
            entries = manifest.fetch_manifest_entry(base.io, discard_deleted=False)
            live_entries += [entry for entry in entries if entry.status != ManifestEntryStatus.DELETED]
            if manifest.added_snapshot_id == lost_snapshot.snapshot_id:
                own_entries += entries
                _require_same_columns(base, manifest.manifest_path)
    except _UncertainError:
        raise
    except Exception as error:
        detail = describe_read_error(error)[1]
        raise _UncertainError(f"a manifest of snapshot {lost_snapshot.snapshot_id} {detail}") from None
    for entry in live_entries:
        if storage.find_size(base.io, entry.data_file.file_path) != entry.data_file.file_size_in_bytes:
            raise _UncertainError(
                f"snapshot {lost_snapshot.snapshot_id} needs {entry.data_file.file_path}, which is lost"
            )
    return Snapshot(
        snapshot_id=lost_snapshot.snapshot_id,
        parent_snapshot_id=lost_snapshot.parent_id,
        sequence_number=lost_snapshot.sequence_number,
        timestamp_ms=max(int(lost_snapshot.modified_at.timestamp() * 1000), metadata.last_updated_ms),
        manifest_list=lost_snapshot.location,
        summary=_summarize(base, own_entries, live_entries),
        schema_id=metadata.current_schema_id,
    )


def _summarize(base: Table, own_entries: Sequence[ManifestEntry], live_entries: Sequence[ManifestEntry]) -> Summary:
    added_files = [entry.data_file for entry in own_entries if entry.status == ManifestEntryStatus.ADDED]
    deleted_files = [entry.data_file for entry in own_entries if entry.status == ManifestEntryStatus.DELETED]
    values = {
        "added-data-files": len(added_files),
        "added-records": sum(file.record_count for file in added_files),
        "added-files-size": sum(file.file_size_in_bytes for file in added_files),
        "deleted-data-files": len(deleted_files),
        "deleted-records": sum(file.record_count for file in deleted_files),
        "total-data-files": len(live_entries),
        "total-records": sum(entry.data_file.record_count for entry in live_entries),
        "total-files-size": sum(entry.data_file.file_size_in_bytes for entry in live_entries),
    }
    properties = {name: str(value) for name, value in values.items() if value}
    properties |= {name: str(values[name]) for name in ("total-data-files", "total-records", "total-files-size")}
    unit: Unit = "hour" if any(field.name == HOUR_COLUMN for field in base.spec().fields) else "day"
    partitions = {find_partition_of_file(base, file, unit) for file in [*added_files, *deleted_files]}
    if len(partitions) == 1:
        properties[PARTITION_PROPERTY] = partitions.pop().isoformat()
    if added_files:
        locations = sorted((file.file_path for file in added_files), key=build_sort_key)
        properties[DIGEST_PROPERTY] = storage.compute_digest(base.io, locations)
    operation = Operation.APPEND if not deleted_files else Operation.OVERWRITE if added_files else Operation.DELETE
    return Summary(operation=operation, **properties)


def _require_same_columns(base: Table, manifest: str) -> None:
    schema = Schema.model_validate_json(_read_avro_header(base.io, manifest)["schema"])
    if schema.fields != base.schema().fields:
        raise _UncertainError("the commit changed the table's columns")


def _require_no_unknown_files(table: Table, base: Table, modification_times: dict[str, dt.datetime]) -> None:
    """Raise an error if a lost commit may have added a data file that the metadata of `table` do not refer to.

    `table` is `base` with the lost snapshots. A data file that it does not refer to may belong to a commit that was
    lost with its manifest list.

    If snapshots of the table have expired, their data files remain although nothing refers to them. Then only files
    that are newer than `base` are examined: a commit writes its files after it has read the version before it, so older
    files do not belong to a lost commit.
    """
    base_time = dt.datetime.fromtimestamp(base.metadata.last_updated_ms / 1000 if _has_expired(base) else 0, dt.UTC)
    used_locations = list_table_files(table).row_files
    for location, changed_at in modification_times.items():
        if "/data/" in location and location not in used_locations and changed_at > base_time:
            raise _UncertainError(f"a later commit may have added {location}")


def _has_expired(base: Table) -> bool:
    """Return whether snapshots of the table have expired: each new snapshot increases the sequence number by one."""
    return len(base.snapshots()) < int(base.metadata.last_sequence_number)
