"""Find the tables whose files are in the catalog's warehouse, whether or not the catalog lists them."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.io import FileIO, load_file_io
from sqlalchemy import inspect

from pipelines.lake import storage
from pipelines.lake.commits import NAMESPACE

METADATA_SUFFIX = ".metadata.json"


def get_tables_folder(catalog: Catalog) -> str:
    """Return the location of the folder in which the catalog creates tables.

    Returns:
        The location; empty if only the catalog's server knows it, or if the warehouse is not a location.
    """
    # pyiceberg 0.12: a catalog has this method only if no server decides where its tables are.
    resolve = getattr(catalog, "_resolve_table_location", None)
    warehouse = str(catalog.properties.get("warehouse", "")).rstrip("/")
    if resolve is None or "/" not in warehouse:
        return ""
    try:
        if lacks_database_tables(catalog):
            return f"{warehouse}/{NAMESPACE}"
        # "t" stands for the name of any table.
        return str(resolve(None, NAMESPACE, "t")).removesuffix("/t")
    except NoSuchNamespaceError:
        return f"{warehouse}/{NAMESPACE}"


def lacks_database_tables(catalog: Catalog) -> bool:
    """Return whether this is an SQL catalog whose database lacks pyiceberg's own tables, which list the Iceberg tables.

    pyiceberg's own tables are missing if the database is new, or if they were lost.
    """
    return hasattr(catalog, "engine") and not inspect(catalog.engine).has_table("iceberg_tables")


def load_io(catalog: Catalog, location: str) -> FileIO:
    """Return the FileIO that reads the catalog's files at a location."""
    return load_file_io(properties=catalog.properties, location=location)


def list_stored_tables(io: FileIO, folder: str, name: str = "") -> dict[str, list[str]]:
    """Return the tables whose files are in the folder.

    A folder counts as a table only if rows were written: then its metadata have a second or later version. A writer
    that was killed while it created a table leaves only the first version.

    Args:
        io: reads the files.
        folder: location of the tables.
        name: the only table to look for; empty: all.

    Returns:
        A mapping of each table's name to the locations of its metadata files, the newest last; sorted by name.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    tables: dict[str, list[str]] = {}
    for location in storage.list_files(io, f"{folder}/{name}/metadata" if name else folder):
        table, _, file = location.removeprefix(f"{folder}/").partition("/metadata/")
        if file.endswith(METADATA_SUFFIX) and "/" not in table:
            tables.setdefault(table, []).append(location)
    for locations in tables.values():
        locations.sort(key=lambda location: (get_version(location), location))
    return {table: locations for table, locations in sorted(tables.items()) if get_version(locations[-1]) >= 1}


def get_version(location: str) -> int:
    """Return the number of a metadata file, which grows by one with each commit; -1 if its name has no number."""
    number = location.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdecimal() else -1
