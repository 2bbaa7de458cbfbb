"""Repair the lake: check it and restore lost files, until a check finds no file that can be restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pyiceberg.catalog import Catalog

from pipelines.lake import storage
from pipelines.lake.check import catalogs as catalog_check
from pipelines.lake.check.findings import Finding, Kind, LakeReport
from pipelines.lake.check.lake_check import EVERYTHING, Scope, check_lake
from pipelines.lake.check.table_files import TableFiles, list_table_files
from pipelines.lake.commits import NAMESPACE
from pipelines.lake.repair import catalogs, manifests, metadata
from pipelines.lake.repair.backup import Backup
from pipelines.lake.repair.row_files import restore_row_file
from pipelines.lake.repair.row_sources import LakeRowSource, RowSource
from pipelines.lake.warehouse import load_io
from pipelines.settings import settings
from pipelines.system.locks import hold_lock
from pipelines.system.log import log
from pipelines.system.temporary_folders import make_temporary_folder


def repair_lake(
    row_sources: Sequence[RowSource] = (),
    backup: Backup | None = None,
    catalog: Catalog | None = None,
    scope: Scope = EVERYTHING,
) -> tuple[LakeReport, list[Finding]]:
    """Restore lost files of the lake. Idempotent; a file is restored completely or not at all, even after a kill.

    Files are restored at their original locations, so no snapshot changes. Nothing is removed. Other processes may read
    and write the lake meanwhile, except a process that opened the catalog before it was damaged: that process would
    commit to the damaged catalog.

    Args:
        row_sources: sources of the content of lost data files, besides the lake itself and the backup.
        backup: a backup of this LEEWAY_HOME.
        catalog: the catalog; None: the one that `open_catalog` opens.
        scope: which files to check and restore, and whether the check reads their content.

    Returns:
        The report about the files that are still lost, and the findings that were repaired.

    Raises:
        ConflictError: another repair of this LEEWAY_HOME runs, or the SQLite catalog stayed locked. A retry can help.
        ServiceError: the storage or the catalog does not answer. A retry can help.
    """
    restored_findings: dict[tuple[Kind, str], Finding] = {}
    with hold_lock(settings().home / "lake-repair.lock", "another repair of the lake runs."):
        while True:
            report = check_lake(catalog, scope)
            # A file that is lost again after it was restored is not restored a second time: the disk may be broken.
            open_findings = [
                finding for finding in report.findings if (finding.kind, finding.location) not in restored_findings
            ]
            findings = _restore(open_findings, row_sources, backup, catalog)
            new_findings = {(finding.kind, finding.location): finding for finding in findings}
            if not new_findings:
                return report, list(restored_findings.values())
            restored_findings |= new_findings


def _restore(
    open_findings: Sequence[Finding], row_sources: Sequence[RowSource], backup: Backup | None, catalog: Catalog | None
) -> Iterator[Finding]:
    """Restore what is possible now, and yield each restored finding.

    A lost catalog or metadata file hides other lost files. The next check finds these.
    """
    for finding in open_findings:
        if finding.kind == "catalog":
            if restored_finding := catalogs.rebuild_catalog(finding):
                yield restored_finding
            return
    if not open_findings:
        return
    catalog = catalog or catalog_check.open_catalog_to_check(creates_tables=True)
    metadata_by_table = catalog_check.list_metadata(catalog)
    yield from _restore_catalog_entries(open_findings, metadata_by_table, catalog)
    yield from _restore_metadata(open_findings, metadata_by_table, backup, catalog)
    yield from _restore_rows(
        [finding for finding in open_findings if finding.kind == "rows"], row_sources, backup, catalog
    )


def _restore_catalog_entries(
    open_findings: Sequence[Finding], metadata_by_table: Mapping[str, Sequence[str]], catalog: Catalog
) -> Iterator[Finding]:
    """Make the catalog list lost tables again, and name the newest metadata file of each table."""
    for finding in open_findings:
        restored_finding = None
        if finding.problem == "unlisted":
            restored_finding = catalogs.register_table(catalog, finding, metadata_by_table[finding.table])
        elif finding.problem == "outdated":
            restored_finding = catalogs.point_to_newest_metadata(catalog, finding, metadata_by_table[finding.table])
        if restored_finding:
            yield restored_finding


def _restore_metadata(
    open_findings: Sequence[Finding],
    metadata_by_table: Mapping[str, Sequence[str]],
    backup: Backup | None,
    catalog: Catalog,
) -> Iterator[Finding]:
    """Restore metadata files, manifest lists and manifests: copy them from the backup, or write them again."""
    for finding in open_findings:
        if finding.kind in ("metadata", "manifest list", "manifest"):
            restored_finding = _copy_from_backup(finding, backup, catalog) if backup else None
            locations = metadata_by_table.get(finding.table, [])
            if restored_finding := restored_finding or _rebuild(finding, catalog, locations):
                log.info("%s: restored from %s", finding.describe(), restored_finding.restored_from)
                yield restored_finding


def _copy_from_backup(finding: Finding, backup: Backup, catalog: Catalog) -> Finding | None:
    with make_temporary_folder() as folder:
        path = backup.extract(finding.location, folder / "file")
        if path is None:
            return None
        storage.put_file(load_io(catalog, finding.location), finding.location, path)
        return replace(finding, restored_from=backup.name)


def _rebuild(finding: Finding, catalog: Catalog, metadata_locations: Sequence[str]) -> Finding | None:
    if finding.kind == "metadata":
        return metadata.rebuild_metadata(load_io(catalog, finding.location), finding, metadata_locations)
    try:
        table = catalog.load_table((NAMESPACE, finding.table))
    except Exception:  # the table's metadata are lost, too
        return None
    if finding.kind == "manifest list":
        return manifests.rebuild_manifest_list(table, finding)
    return manifests.rebuild_manifest(list_table_files(table), finding)


def _restore_rows(
    open_findings: Sequence[Finding], row_sources: Sequence[RowSource], backup: Backup | None, catalog: Catalog
) -> Iterator[Finding]:
    if not open_findings:
        return
    tables = {files.name: files for files in _list_readable_tables(catalog)}
    lake_source = LakeRowSource(list(tables.values()), {finding.location for finding in open_findings})
    all_row_sources: list[RowSource] = [lake_source, *([backup] if backup else []), *row_sources]
    for finding in open_findings:
        files = tables.get(finding.table)
        if files and finding.location in files.row_files:
            restored_finding = restore_row_file(
                files.table.io, finding, files.row_files[finding.location], all_row_sources
            )
            if restored_finding:
                yield restored_finding


def _list_readable_tables(catalog: Catalog) -> Iterator[TableFiles]:
    for name in catalog_check.list_tables(catalog):
        with suppress(Exception):  # the check reports a table that cannot be read
            yield list_table_files(catalog.load_table((NAMESPACE, name)))
