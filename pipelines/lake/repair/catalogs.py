"""Restore the catalog: rebuild a lost one, list lost tables again, and correct entries that name an old version."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from pipelines.lake.catalog import build_embedded_properties, get_embedded_file, is_empty_database, list_embedded_tables
from pipelines.lake.check.catalogs import find_catalog_damage
from pipelines.lake.check.findings import Finding
from pipelines.lake.check.lake_check import find_table_version
from pipelines.lake.commits import NAMESPACE
from pipelines.lake.repair.metadata import attach_lost_snapshots, rebuild_metadata
from pipelines.lake.repair.versions import find_last_version
from pipelines.lake.warehouse import get_version, load_io
from pipelines.system.files import replace_file
from pipelines.system.log import log

SQLITE_SUFFIXES = ("-journal", "-wal", "-shm")
"""Suffixes of the files that SQLite keeps beside a database. Such files of an old database would damage a new one."""
NEWEST = "the newest metadata"
"""Value of `Finding.restored_from`: the source of the restored content."""


def rebuild_catalog(finding: Finding) -> Finding | None:
    """Replace the lost or damaged embedded catalog by a new one, which names the newest version of each table.

    The new database is written under a temporary name, and renamed when it is complete. The damaged database stays
    beside it: NAME.damaged-TIME. A table whose newest version is lost is not listed.

    Returns:
        The finding with `restored_from`; None if there is no table to list, or if another process has rebuilt the
        catalog.
    """
    path = get_embedded_file()
    if find_catalog_damage() is None:
        return None
    old_content = path.read_bytes() if path.exists() else b""
    io = PyArrowFileIO()
    _rebuild_newest_versions(io, list_embedded_tables())
    locations_by_table = {
        table: _choose_version(io, table, locations, old_content) for table, locations in list_embedded_tables().items()
    }
    versions = {table: location for table, location in locations_by_table.items() if location}
    if not versions:
        return None
    with replace_file(path) as temporary:
        _build_database(temporary, versions)
        _keep_old_files(path)
    log.info("%s: rebuilt with %d tables", path, len(versions))
    return replace(finding, restored_from=NEWEST)


def register_table(catalog: Catalog, finding: Finding, metadata: Sequence[str]) -> Finding | None:
    """List a table in the catalog again, by its newest version.

    Args:
        catalog: the catalog.
        finding: the finding about the table that the catalog does not list.
        metadata: locations of the table's metadata files, the newest last.

    Returns:
        The finding with `restored_from`; None if the newest version is lost.
    """
    location = _choose_version(load_io(catalog, finding.location), finding.table, metadata)
    if not location:
        return None
    catalog.create_namespace_if_not_exists(NAMESPACE)
    with suppress(TableAlreadyExistsError):  # another process has listed it
        catalog.register_table((NAMESPACE, finding.table), location)
    log.info("%s: listed again, at version %d", finding.table, get_version(location))
    return replace(finding, restored_from=NEWEST)


def point_to_newest_metadata(catalog: Catalog, finding: Finding, metadata: Sequence[str]) -> Finding | None:
    """Make the catalog name the newest version of a table.

    Args:
        catalog: the catalog.
        finding: the finding about the table of which the catalog names an old version.
        metadata: locations of the table's metadata files, the newest last.

    Returns:
        The finding with `restored_from`; None if the newest version is lost, if another process has committed to the
        table, or if the catalog is not an SQL catalog.
    """
    table = catalog.load_table((NAMESPACE, finding.table))
    current_location, location = table.metadata_location, _choose_version(table.io, finding.table, metadata)
    if get_version(location) <= get_version(current_location) or not _swap_version(
        catalog, finding.table, current_location, location
    ):
        return None
    log.info("%s: the catalog names version %d again", finding.table, get_version(location))
    return replace(finding, restored_from=NEWEST)


def _rebuild_newest_versions(io: FileIO, metadata: Mapping[str, list[str]]) -> None:
    """Write the newest version of each table again if it cannot be read and its content is certain."""
    for table, locations in metadata.items():
        if not find_table_version(io, locations[-1], table):
            rebuild_metadata(io, Finding("metadata", "damaged", locations[-1], "cannot be read", table), locations)


def _choose_version(io: FileIO, table: str, locations: Sequence[str], old_catalog: bytes = b"") -> str:
    """Return the location of the version of a table that was committed last; empty if that version is lost.

    That version is normally the newest one. If the damaged catalog names only the version before it, the newest one was
    never committed: a writer was killed. If there are committed snapshots that no metadata file has, and their content
    is certain, a metadata file with them is written. An older version is never returned, because it would hide commits.

    Args:
        io: reads the metadata.
        table: name of the table.
        locations: locations of its metadata files, the newest last.
        old_catalog: bytes of the damaged catalog, which may contain the location that was committed last.
    """
    number = get_version(locations[-1])
    named_locations = [location for location in locations if location.encode() in old_catalog]
    if (
        named_locations
        and get_version(named_locations[-1]) == number - 1
        and find_table_version(io, named_locations[-1], table)
    ):
        return named_locations[-1]
    newest_locations = [location for location in locations if get_version(location) == number]
    version = find_last_version(
        io, table, [location for location in newest_locations if location in named_locations] or newest_locations
    )
    return attach_lost_snapshots(version) if version else ""


def _build_database(path: Path, versions: Mapping[str, str]) -> None:
    properties = build_embedded_properties() | {"uri": f"sqlite:///{path}"}
    catalog = load_catalog(NAMESPACE, **properties)
    try:
        catalog.create_namespace_if_not_exists(NAMESPACE)
        for table, location in versions.items():
            catalog.register_table((NAMESPACE, table), location)
    finally:
        catalog.engine.dispose()


def _keep_old_files(path: Path) -> None:
    """Rename the files that SQLite kept beside the damaged database, and give the database itself a second name."""
    suffix = f".damaged-{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S}"
    for sqlite_file in (Path(f"{path}{sqlite_suffix}") for sqlite_suffix in SQLITE_SUFFIXES):
        with suppress(FileNotFoundError):
            os.replace(sqlite_file, f"{sqlite_file}{suffix}")
    if not is_empty_database(path):
        with suppress(FileExistsError):
            os.link(path, f"{path}{suffix}")


def _swap_version(catalog: Catalog, table: str, current_location: str, location: str) -> bool:
    """Make the catalog name `location` if it names `current_location`; return whether it did."""
    if not hasattr(catalog, "engine"):  # Glue and REST have no compare and swap of the location
        return False
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import update

    statement = (
        update(IcebergTables)
        .where(
            IcebergTables.catalog_name == catalog.name,
            IcebergTables.table_namespace == NAMESPACE,
            IcebergTables.table_name == table,
            IcebergTables.metadata_location == current_location,
        )
        .values(metadata_location=location, previous_metadata_location=current_location)
    )
    with catalog.engine.begin() as connection:
        return bool(connection.execute(statement).rowcount)
