"""Restore the catalog: build a lost one anew, list tables again, and name the newest versions of tables."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from pipelines.lake import storage
from pipelines.lake.catalog import build_embedded_properties, get_embedded_file, is_empty
from pipelines.lake.check.catalogs import find_catalog_damage, get_embedded_folder, sort_metadata
from pipelines.lake.check.checking import load_version
from pipelines.lake.check.findings import Finding
from pipelines.lake.check.table_files import list_table_files
from pipelines.lake.commits import NAMESPACE
from pipelines.lake.repair.metadata import rebuild_metadata
from pipelines.lake.warehouse import get_version, list_unlisted_tables
from pipelines.system.log import log

COMPANIONS = ("-journal", "-wal", "-shm")
"""Endings of the files that SQLite keeps beside a database. Those of an old database would damage a new one."""
NEWEST = "the newest metadata"


def rebuild_catalog(finding: Finding) -> Finding | None:
    """Put a new embedded catalog in the place of the lost one, with the newest version of each table.

    The new database is complete before it gets its name. The damaged one stays beside it, under another name.

    Returns:
        The finding; None where there is no table to list, or another process rebuilt the catalog meanwhile.
    """
    path = get_embedded_file()
    if find_catalog_damage() is None:
        return None
    old_content = path.read_bytes() if path.exists() else b""
    _rebuild_newest_versions(PyArrowFileIO(), _list_metadata())
    versions = dict(_choose_versions(PyArrowFileIO(), _list_metadata(), old_content))
    if not versions:
        return None
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        _build_database(temporary, versions)
        _keep_old_files(path)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    log.info("%s: built anew with %d tables", path, len(versions))
    return replace(finding, restored_from=NEWEST)


def list_table(catalog: Catalog, finding: Finding, io: FileIO, metadata: Sequence[str]) -> Finding | None:
    """List a table in the catalog again, by its newest version; None where no version of it can be read."""
    for table, location in _choose_versions(io, {finding.table: list(metadata)}, b""):
        catalog.create_namespace_if_not_exists(NAMESPACE)
        with suppress(TableAlreadyExistsError):  # another process listed it meanwhile
            catalog.register_table((NAMESPACE, table), location)
        log.info("%s: listed again, at version %d", table, get_version(location))
        return replace(finding, restored_from=NEWEST)
    return None


def name_newest_version(catalog: Catalog, finding: Finding, metadata: Sequence[str]) -> Finding | None:
    """Let the catalog name the newest version of a table. Compare and swap; None where another process changed it."""
    table = catalog.load_table((NAMESPACE, finding.table))
    present = table.metadata_location
    for _, location in _choose_versions(table.io, {finding.table: list(metadata)}, b""):
        if get_version(location) <= get_version(present) or not _swap_version(
            catalog, finding.table, present, location
        ):
            return None
        log.info("%s: version %d is named again", finding.table, get_version(location))
        return replace(finding, restored_from=NEWEST)
    return None


def _rebuild_newest_versions(io: FileIO, metadata: Mapping[str, list[str]]) -> None:
    """Write the newest version of each table again where it cannot be read, and where it is certain what it had."""
    for table, locations in metadata.items():
        if not _is_readable(locations[-1], table, io):
            rebuild_metadata(io, Finding("metadata", "damaged", locations[-1], "cannot be read", table), locations)


def _list_metadata() -> dict[str, list[str]]:
    return sort_metadata(list_unlisted_tables(PyArrowFileIO(), get_embedded_folder()))


def _choose_versions(io: FileIO, metadata: Mapping[str, list[str]], old_catalog: bytes) -> Iterator[tuple[str, str]]:
    """Yield each table with the location of its newest version; tables whose newest version is lost are left out.

    Args:
        io: reads the metadata.
        metadata: table to the locations of its metadata, the newest last.
        old_catalog: content of the damaged catalog, which may name the version that was committed last.
    """
    for table, locations in metadata.items():
        newest = get_version(locations[-1])
        named = [location for location in locations if location.encode() in old_catalog]
        # A writer that was killed may have left a version that was never committed.
        if named and get_version(named[-1]) >= newest - 1 and _is_readable(named[-1], table, io):
            yield table, named[-1]
            continue
        newest_locations = [location for location in locations if get_version(location) == newest]
        # An older version would hide what was committed since. So a table whose newest version is lost is left out.
        candidates = [location for location in newest_locations if _is_readable(location, table, io)]
        if candidates:
            # Of two writers that raced, the one that lost has removed its files, unless it was killed.
            whole = [location for location in candidates if _is_whole(location, table, io)]
            if len(whole) > 1:
                log.warning("%s has %d newest versions; %s is taken, not %s", table, len(whole), *whole[:2])
            yield table, (whole or candidates)[0]


def _is_readable(location: str, table: str, io: FileIO) -> bool:
    try:
        load_version(io, location, table)
    except Exception:
        return False
    return True


def _is_whole(location: str, table: str, io: FileIO) -> bool:
    """Return whether the manifests and the files of rows of the version's current snapshot exist."""
    files = list_table_files(load_version(io, location, table))
    present = [file.data_file for file in files.row_files.values() if file.is_current]
    is_listed = not any(finding.is_current for finding in files.findings)
    return is_listed and all(storage.find_size(io, file.file_path) == file.file_size_in_bytes for file in present)


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
    """Rename what SQLite kept beside the damaged database, and give the database itself a second name."""
    suffix = f".damaged-{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S}"
    for companion in (Path(f"{path}{ending}") for ending in COMPANIONS):
        with suppress(FileNotFoundError):
            os.replace(companion, f"{companion}{suffix}")
    if not is_empty(path):
        with suppress(FileExistsError):
            os.link(path, f"{path}{suffix}")


def _swap_version(catalog: Catalog, table: str, present: str, location: str) -> bool:
    """Let the catalog name `location` where it names `present`; return whether it did."""
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
            IcebergTables.metadata_location == present,
        )
        .values(metadata_location=location, previous_metadata_location=present)
    )
    with catalog.engine.begin() as connection:
        return bool(connection.execute(statement).rowcount)
