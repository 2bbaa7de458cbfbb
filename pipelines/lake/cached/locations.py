"""Read the location of the current metadata of each table, to find out which tables have changed."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from sqlalchemy import select

from pipelines.lake.catalog import explain_damaged_catalog
from pipelines.lake.commits import NAMESPACE


def read_table_locations(catalog: Catalog) -> dict[str, str]:
    """Read the location of the metadata of each table; it changes with each commit.

    If the catalog is a database, this is one query, which takes less than a millisecond of CPU. From any other catalog
    each table is loaded.

    Returns:
        Maps the name of each table to the location of its metadata file.

    Raises:
        DataError: the catalog's database is damaged. A retry cannot help.
        ServiceError: the catalog does not answer. A retry can help.
    """
    with explain_damaged_catalog():
        if not isinstance(catalog, SqlCatalog):
            identifiers = catalog.list_tables(NAMESPACE)
            return {identifier[-1]: catalog.load_table(identifier).metadata_location for identifier in identifiers}
        query = select(IcebergTables.table_name, IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == catalog.name, IcebergTables.table_namespace == NAMESPACE
        )
        with catalog.engine.connect() as connection:
            return {name: location or "" for name, location in connection.execute(query)}
