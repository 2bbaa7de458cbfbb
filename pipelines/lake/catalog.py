"""Open the Iceberg catalog of the lake; find, load and create its tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from pipelines.errors import DataError
from pipelines.lake.commits import NAMESPACE, PARTITION, TABLE_PROPERTIES, retry_conflicts
from pipelines.settings import settings


def open_catalog() -> Catalog:
    """Open the configured catalog; create it, and its namespace, where there is none.

    Raises:
        ConflictError: the SQLite catalog stayed locked. A retry can help.
    """
    for attempt in retry_conflicts():
        with attempt:
            catalog = load_catalog(NAMESPACE, **_build_embedded_properties())
            catalog.create_namespace_if_not_exists(NAMESPACE)
            return catalog
    raise AssertionError("tenacity returns or raises")


def find_table(catalog: Catalog, name: str) -> Table | None:
    """Load a table, or return None where the catalog has no such table."""
    try:
        return catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        return None


def load_table(catalog: Catalog, name: str) -> Table:
    """Load a table.

    Raises:
        DataError: the catalog has no such table. A retry cannot help.
    """
    table = find_table(catalog, name)
    if table is None:
        raise DataError(f"the lake has no table {name}.", "Ingest and validate first.")
    return table


def create_table(catalog: Catalog, name: str, schema: pa.Schema, partition_columns: Sequence[str] = ()) -> None:
    """Create a table that is partitioned by `date`, unless it exists. Idempotent.

    Args:
        catalog: where to create the table.
        name: name of the table.
        schema: columns of the table, in types that Iceberg has.
        partition_columns: further columns by which the table is partitioned.
    """
    identifier = (NAMESPACE, name)
    if catalog.table_exists(identifier):
        return
    try:
        transaction = catalog.create_table_transaction(identifier, schema, properties=TABLE_PROPERTIES)
        with transaction, transaction.update_spec() as spec:
            for column in (PARTITION, *partition_columns):
                spec.add_identity(column)
    except (TableAlreadyExistsError, CommitFailedException):
        return  # another process created it first


def _build_embedded_properties() -> dict[str, str]:
    """Return the properties of the SQLite catalog under LEEWAY_HOME; none where pyiceberg has a configured catalog."""
    if Config().get_catalog_config(NAMESPACE):
        return {}
    folder = settings().home / "lake"
    folder.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}
