"""List the data files that a table's snapshots need, and the problems of the manifests that list them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile, read_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import DateType

from pipelines.errors import RetryableError
from pipelines.lake import storage
from pipelines.lake.check.findings import Finding, Kind, Problem
from pipelines.lake.commits import DIGEST_PROPERTY
from pipelines.lake.views import build_sort_key
from pipelines.system.error_translation import DISK_ERRORS, describe_reason, translate_error

_EPOCH = dt.date(1970, 1, 1)
"""Iceberg stores a date as the number of days since this day."""


@dataclass(frozen=True)
class RowFile:
    """One data file, as a manifest describes it."""

    data_file: DataFile
    snapshot_id: int
    """Snapshot that added the file."""
    partition: str
    """Partition of the rows, as `format_partition` writes it."""
    is_current: bool
    """Whether the current snapshot needs the file."""

    @property
    def location(self) -> str:
        """Location of the file."""
        return str(self.data_file.file_path)


@dataclass
class TableFiles:
    """The data files that a table's snapshots need, and the problems of the manifests and manifest lists."""

    table: Table
    row_files: dict[str, RowFile] = field(default_factory=dict)
    """Maps each location to its file; the files of the current snapshot come first."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the table, without the namespace."""
        return str(self.table.name()[-1])

    def group_by_snapshot(self) -> Iterator[tuple[str, Sequence[RowFile]]]:
        """Yield, for each snapshot that added files, their digest, and the files in the order of writing.

        The digest is empty if it is not known, or if `row_files` lacks some files that the snapshot added.
        """
        groups: dict[int, list[RowFile]] = {}
        for file in self.row_files.values():
            groups.setdefault(file.snapshot_id, []).append(file)
        for snapshot_id, files in groups.items():
            summary = read_summary(self.table.metadata.snapshot_by_id(snapshot_id))
            is_complete = summary.get("added-data-files") == str(len(files))
            digest = summary.get(DIGEST_PROPERTY, "") if is_complete else ""
            yield digest, sorted(files, key=lambda file: build_sort_key(file.location))


def list_table_files(table: Table, *, includes_older: bool = True) -> TableFiles:
    """List the data files of the table's snapshots by reading their manifests, the current snapshot first.

    Args:
        table: the table.
        includes_older: whether to list the files of all snapshots. If not, only those of the current snapshot.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    files, manifests = TableFiles(table), dict[str, bool]()
    current_snapshot = table.current_snapshot()
    older_snapshots = [
        snapshot for snapshot in table.snapshots() if current_snapshot is None or snapshot != current_snapshot
    ]
    if current_snapshot:
        _add_snapshot(files, manifests, current_snapshot, is_current=True)
    for snapshot in reversed(older_snapshots if includes_older else []):
        _add_snapshot(files, manifests, snapshot, is_current=False)
    return files


def read_summary(snapshot: Snapshot | None) -> Mapping[str, str]:
    """Return the properties of a snapshot's summary; empty if there is no such snapshot, or no summary."""
    return snapshot.summary.additional_properties if snapshot and snapshot.summary else {}


def describe_read_error(error: BaseException) -> tuple[Problem, str]:
    """Return the problem of a file, and its description, for an error that was raised while the file was read.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    if isinstance(error, FileNotFoundError):
        return "missing", "does not exist"
    if isinstance(error, PermissionError):
        return "unreadable", "cannot be read: no permission"
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        return "unreadable", f"cannot be read: {describe_reason(error)}"
    translation = translate_error(error)
    if isinstance(translation, RetryableError):
        raise translation from None
    return "damaged", f"cannot be read: {describe_reason(error)[:200]}"


def _add_snapshot(files: TableFiles, manifests: dict[str, bool], snapshot: Snapshot, *, is_current: bool) -> None:
    """Add the files of a snapshot.

    Args:
        files: the object to which the files of the snapshot are added.
        manifests: for each location of a manifest, whether `_add_manifest` found it sound. It already has the manifests
            of the snapshots that were added before; this function adds the others of this snapshot.
        snapshot: the snapshot.
        is_current: whether it is the current snapshot.
    """
    io, location = files.table.io, snapshot.manifest_list
    try:
        storage.read_bytes(io, location)  # its errors distinguish an outage from a damaged file; pyiceberg's do not
        listed_manifests = list(read_manifest_list(io.new_input(location)))
    except Exception as error:
        files.findings.append(_make_finding(files, "manifest list", location, error, snapshot, is_current=is_current))
        return
    for manifest in listed_manifests:
        if manifest.manifest_path not in manifests:
            manifests[manifest.manifest_path] = _add_manifest(files, manifest, snapshot, is_current=is_current)
    if is_current and all(manifests[manifest.manifest_path] for manifest in listed_manifests):
        _check_totals(files, snapshot)


def _add_manifest(files: TableFiles, manifest: ManifestFile, snapshot: Snapshot, *, is_current: bool) -> bool:
    """Add the files of a manifest; return whether it can be read, and lists as many files as it should."""
    io, location = files.table.io, manifest.manifest_path
    try:
        size = len(storage.read_bytes(io, location))
        if size != manifest.manifest_length:
            raise ValueError(f"it has {size} bytes, and should have {manifest.manifest_length}")
        entries = manifest.fetch_manifest_entry(io)
    except Exception as error:
        files.findings.append(_make_finding(files, "manifest", location, error, snapshot, is_current=is_current))
        return False
    counts = (manifest.added_files_count, manifest.existing_files_count)
    if None not in counts and sum(counts) != len(entries):
        count_error = ValueError(f"it lists {len(entries)} files, and should list {sum(counts)}")
        files.findings.append(_make_finding(files, "manifest", location, count_error, snapshot, is_current=is_current))
        return False
    for entry in entries:
        partition = format_partition(files.table, entry.data_file)
        file = RowFile(entry.data_file, entry.snapshot_id or 0, partition, is_current)
        files.row_files.setdefault(file.location, file)
    return True


def _check_totals(files: TableFiles, snapshot: Snapshot) -> None:
    """Compare the current snapshot's totals with what its manifests list."""
    data_files = [file.data_file for file in files.row_files.values() if file.data_file.content == DataFileContent.DATA]
    totals = {"total-data-files": len(data_files), "total-records": sum(file.record_count for file in data_files)}
    summary = read_summary(snapshot)
    for name, number in totals.items():
        if name in summary and summary[name] != str(number):
            error = ValueError(f"its manifests have {name} {number}, and the snapshot {summary[name]}")
            files.findings.append(
                _make_finding(files, "manifest list", snapshot.manifest_list, error, snapshot, is_current=True)
            )
            return


def _make_finding(
    files: TableFiles, kind: Kind, location: str, error: BaseException, snapshot: Snapshot, *, is_current: bool
) -> Finding:
    problem, detail = describe_read_error(error)
    return Finding(kind, problem, location, detail, files.name, is_current=is_current, snapshot_id=snapshot.snapshot_id)


def format_partition(table: Table, data_file: DataFile) -> str:
    """Format the partition of a data file, such as 2013-01-01 or 2013-01-01/flights/3 (day, model and version)."""
    spec, schema = table.metadata.specs().get(data_file.spec_id, table.spec()), table.metadata.schema()
    values: list[Any] = list(data_file.partition)
    texts = []
    for value, column in zip(values, spec.fields, strict=False):
        is_date = isinstance(schema.find_type(column.source_id), DateType) and isinstance(value, int)
        texts.append(str(_EPOCH + dt.timedelta(value)) if is_date else str(value))
    return "/".join(texts)
