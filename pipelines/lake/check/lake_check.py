"""Check that the files and the catalog of the lake are as they were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable, Table

from pipelines.lake.catalog import list_embedded_tables
from pipelines.lake.check import catalogs
from pipelines.lake.check.findings import Finding, LakeReport
from pipelines.lake.check.row_content import check_row_files
from pipelines.lake.check.table_files import describe_read_error, list_table_files
from pipelines.lake.commits import NAMESPACE
from pipelines.lake.warehouse import load_io
from pipelines.system.log import log


@dataclass(frozen=True)
class Scope:
    """The scope of a check: whether it reads the content of files, and the files of older snapshots."""

    reads_content: bool = True
    """Whether to read the content of the data files. Otherwise, only their presence and size are checked."""
    includes_older: bool = True
    """Whether to check the files of older snapshots as well. Otherwise, only files of the current rows are checked."""


EVERYTHING = Scope()
"""The files of all snapshots, with their content."""


def check_lake(catalog: Catalog | None = None, scope: Scope = EVERYTHING) -> LakeReport:
    """Check the catalog, and the metadata, the manifests and the data files of all tables. Nothing is changed.

    Commits of other processes during the check are neither checked nor reported as a problem.

    Args:
        catalog: the catalog to check; None: the one that `open_catalog` opens. The database of the embedded catalog is
            checked only if this is None.
        scope: the files to check, and whether to read their content.

    Raises:
        ConflictError: the SQLite catalog stayed locked. A retry can help.
        ServiceError: the storage or the catalog does not answer. A retry can help.
    """
    if catalog is None and catalogs.has_no_lake():
        return LakeReport()
    if catalog is None and (damage := catalogs.find_catalog_damage()):
        return _check_without_catalog(damage, scope)
    catalog = catalog or catalogs.open_catalog_to_check()
    # The metadata files are listed before the catalog is read. In the other order, a commit in between would be
    # reported as a problem of the catalog.
    metadata = catalogs.list_metadata(catalog)
    listed_names = catalogs.list_tables(catalog)
    unlisted_findings = list(catalogs.find_unlisted_tables(listed_names, metadata))
    reports = [LakeReport(findings=tuple(unlisted_findings))]
    reports += [_check_listed_table(catalog, name, metadata.get(name, []), scope) for name in listed_names]
    for finding in unlisted_findings:
        reports.append(_check_table_version(load_io(catalog, finding.location), finding.location, finding.table, scope))
    return _sum_reports(reports)


def load_table_version(io: FileIO, location: str, name: str) -> Table:
    """Load a table from one of its metadata files, without the catalog."""
    static_table = StaticTable.from_metadata(location, properties=io.properties)
    return Table((NAMESPACE, name), static_table.metadata, location, static_table.io, static_table.catalog)


def find_table_version(io: FileIO, location: str, name: str) -> Table | None:
    """Load a table from one of its metadata files; return None if the file cannot be read.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    try:
        return load_table_version(io, location, name)
    except Exception as error:
        log.info("%s: %s %s", name, location, describe_read_error(error)[1])
        return None


def _check_without_catalog(damage: Finding, scope: Scope) -> LakeReport:
    io = PyArrowFileIO()
    reports = [
        _check_table_version(io, locations[-1], name, scope) for name, locations in list_embedded_tables().items()
    ]
    return _sum_reports([LakeReport(findings=(damage,)), *reports])


def _check_listed_table(catalog: Catalog, name: str, metadata: Sequence[str], scope: Scope) -> LakeReport:
    log.info("checking %s", name)
    try:
        table = catalog.load_table((NAMESPACE, name))
    except Exception as error:
        location = catalogs.find_metadata_location(catalog, name) or (metadata[-1] if metadata else name)
        return _report_unreadable_metadata(location, name, error)
    report = _check_table(table, scope)
    outdated_finding = catalogs.find_outdated_entry(
        table.io, name, table.metadata_location, metadata, str(table.metadata.table_uuid)
    )
    return replace(report, findings=(outdated_finding, *report.findings)) if outdated_finding else report


def _check_table_version(io: FileIO, location: str, name: str, scope: Scope) -> LakeReport:
    try:
        table = load_table_version(io, location, name)
    except Exception as error:
        return _report_unreadable_metadata(location, name, error)
    return _check_table(table, scope)


def _check_table(table: Table, scope: Scope) -> LakeReport:
    """Check the manifests and the files of one table."""
    files = list_table_files(table, includes_older=scope.includes_older)
    findings = [*files.findings, *check_row_files(files, reads_content=scope.reads_content)]
    current_files = [file for file in files.row_files.values() if file.is_current]
    return LakeReport(
        findings=tuple(findings),
        tables=1,
        snapshots=len(table.snapshots()),
        files=len(files.row_files),
        rows=sum(int(file.data_file.record_count) for file in current_files),
        size_bytes=sum(int(file.data_file.file_size_in_bytes) for file in files.row_files.values()),
    )


def _report_unreadable_metadata(location: str, name: str, error: Exception) -> LakeReport:
    problem, detail = describe_read_error(error)
    return LakeReport(findings=(Finding("metadata", problem, location, detail, name),), tables=1)


def _sum_reports(reports: Sequence[LakeReport]) -> LakeReport:
    return LakeReport(
        findings=tuple(finding for report in reports for finding in report.findings),
        tables=sum(report.tables for report in reports),
        snapshots=sum(report.snapshots for report in reports),
        files=sum(report.files for report in reports),
        rows=sum(report.rows for report in reports),
        size_bytes=sum(report.size_bytes for report in reports),
    )
