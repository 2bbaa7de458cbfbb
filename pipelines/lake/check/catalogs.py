"""Check the catalog: it can be read, lists every table whose files are there, and names their newest versions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.io import FileIO

from pipelines.errors import ConflictError, DataError
from pipelines.lake import storage
from pipelines.lake.catalog import (
    build_embedded_properties,
    explain_damaged_catalog,
    get_embedded_file,
    has_configured_catalog,
    is_empty_database,
    list_embedded_tables,
)
from pipelines.lake.check.findings import Finding
from pipelines.lake.commits import NAMESPACE, retry_conflicts
from pipelines.lake.warehouse import (
    get_tables_folder,
    get_version,
    lacks_database_tables,
    list_stored_tables,
    load_io,
)
from pipelines.system.error_translation import LOCKED_TEXTS

MIN_NEWER_VERSIONS = 2
"""The catalog is outdated if at least this number of a table's metadata files are newer than the one that it names. One
newer file is not damage: a writer that was killed before it changed the catalog leaves one."""
BUSY_S = 30.0
"""Longest time, seconds, to wait for a database that another process writes."""


def find_catalog_damage() -> Finding | None:
    """Return a finding if the embedded catalog's database is lost or damaged, else None.

    If pyiceberg's configuration names another catalog, also return None.

    Raises:
        ConflictError: the database stayed locked. A retry can help.
    """
    if has_configured_catalog():
        return None
    path = get_embedded_file()
    if is_empty_database(path):
        if not list_embedded_tables():
            return None
        if path.exists():
            return Finding("catalog", "damaged", str(path), "is empty, and there are tables")
        return Finding("catalog", "missing", str(path), "does not exist, and there are tables")
    return _check_database(path)


def open_catalog_to_check(*, creates_tables: bool = False) -> Catalog:
    """Open the catalog, even if its database lacks pyiceberg's own tables, which list the Iceberg tables.

    Args:
        creates_tables: whether to create pyiceberg's own tables in the database of an SQL catalog that lacks them.

    Raises:
        ConflictError: the SQLite catalog stayed locked. A retry can help.
        DataError: the catalog's database is damaged. A retry cannot help.
        SpecError: pyiceberg's configuration of the catalog is wrong. A retry cannot help.
        ServiceError: the configured catalog does not answer. A retry can help.
    """
    properties = build_embedded_properties() | {"init_catalog_tables": str(creates_tables).lower()}
    for attempt in retry_conflicts():
        with attempt, explain_damaged_catalog():
            return load_catalog(NAMESPACE, **properties)
    raise AssertionError("tenacity returns or raises")


def has_no_lake() -> bool:
    """Return whether the embedded catalog is used, but neither the catalog nor any table exists."""
    return not has_configured_catalog() and is_empty_database(get_embedded_file()) and not list_embedded_tables()


def list_tables(catalog: Catalog) -> list[str]:
    """Return the names of the tables that the catalog lists, sorted."""
    if lacks_database_tables(catalog):
        return []
    try:
        return sorted(identifier[-1] for identifier in catalog.list_tables(NAMESPACE))
    except NoSuchNamespaceError:
        return []


def list_metadata(catalog: Catalog) -> dict[str, list[str]]:
    """Return the tables whose files are in the warehouse, with the locations of their metadata, the newest last.

    Return no tables if only the catalog's server knows where they are.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    folder = get_tables_folder(catalog)
    return list_stored_tables(load_io(catalog, folder), folder) if folder else {}


def find_unlisted_tables(listed_names: list[str], metadata: Mapping[str, list[str]]) -> Iterator[Finding]:
    """Yield a finding for each table whose files exist, but that the catalog does not list."""
    for table, locations in metadata.items():
        if table not in listed_names:
            yield Finding("table", "unlisted", locations[-1], "is not listed by the catalog", table)


def find_outdated_entry(
    io: FileIO, table: str, current_location: str, metadata: Sequence[str], uuid: str
) -> Finding | None:
    """Return a finding if the version that the catalog names is outdated (see `MIN_NEWER_VERSIONS`), else None.

    Args:
        io: reads the metadata.
        table: name of the table.
        current_location: location of the metadata file that the catalog names.
        metadata: locations of all metadata files of the table, listed before the catalog was read.
        uuid: UUID of the table. If the newest metadata file is that of another table, which had the same name, there is
            no finding.
    """
    if not metadata or get_version(metadata[-1]) < get_version(current_location) + MIN_NEWER_VERSIONS:
        return None
    if _read_uuid(io, metadata[-1]) != uuid:
        return None
    commits = get_version(metadata[-1]) - get_version(current_location)
    return Finding("table", "outdated", metadata[-1], f"has {commits} commits more than the catalog knows", table)


def _read_uuid(io: FileIO, location: str) -> str:
    """Return the UUID of the table that a metadata file describes; empty if the file cannot be read."""
    try:
        return str(json.loads(storage.read_bytes(io, location))["table-uuid"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def find_metadata_location(catalog: Catalog, table: str) -> str:
    """Return the location of a table's metadata file that the database of an SQL catalog names.

    Return an empty text for another catalog, or if the database does not list the table.
    """
    if not hasattr(catalog, "engine"):
        return ""
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select

    with catalog.engine.connect() as connection:
        query = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == catalog.name,
            IcebergTables.table_namespace == NAMESPACE,
            IcebergTables.table_name == table,
        )
        return str(connection.execute(query).scalar() or "")


def _check_database(path: Path) -> Finding | None:
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as connection:
            results = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(1)").fetchall()]
    except sqlite3.DatabaseError as error:
        if any(text in str(error) for text in LOCKED_TEXTS):
            raise ConflictError(f"{path} stayed locked by another process.", "Run the check again.") from None
        results = [str(error)]
    if results == ["ok"]:
        try:
            list_tables(open_catalog_to_check())
            return None
        except DataError as error:
            results = [error.message]
    return Finding("catalog", "damaged", str(path), f"cannot be read: {results[0].strip()[:200]}")
