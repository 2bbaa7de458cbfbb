"""Open the Iceberg catalog of the lake; find, load and create its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from sqlalchemy.exc import DatabaseError

from pipelines.errors import DataError
from pipelines.lake import configured_catalog, storage
from pipelines.lake.commits import DATE_COLUMN, NAMESPACE, TABLE_PROPERTIES, retry_conflicts
from pipelines.lake.transaction import CachingSqlCatalog
from pipelines.lake.warehouse import get_tables_folder, list_stored_tables, load_io
from pipelines.settings import create_home, settings
from pipelines.system.error_translation import describe_reason, translate_known_error
from pipelines.system.lake_errors import RESTORE_LAKE


def open_catalog() -> Catalog:
    """Open the catalog that pyiceberg's configuration names, or else the embedded one under LEEWAY_HOME.

    The embedded catalog is created if it does not exist, and so is the namespace of the tables.

    Raises:
        ConflictError: the SQLite catalog stayed locked. A retry can help.
        DataError: the catalog's database is damaged, or it is empty although files of tables exist. A retry cannot
            help.
        SpecError: pyiceberg's configuration of the catalog is wrong. A retry cannot help.
        ServiceError: the configured catalog does not answer. A retry can help.
    """
    properties = build_embedded_properties()
    if not has_configured_catalog():
        _refuse_lost_catalog()
    for attempt in retry_conflicts():
        with attempt, explain_damaged_catalog():
            catalog = CachingSqlCatalog(NAMESPACE, **properties) if properties else load_catalog(NAMESPACE)
            if not catalog.namespace_exists(NAMESPACE):
                _refuse_empty_catalog(catalog)
                catalog.create_namespace_if_not_exists(NAMESPACE)
            return catalog
    raise AssertionError("tenacity returns or raises")


def find_table(catalog: Catalog, name: str) -> Table | None:
    """Load a table; return None if the catalog has no such table.

    Raises:
        DataError: the catalog's database is damaged. A retry cannot help. If the table's metadata file is damaged or
            missing, pyiceberg's own error is raised; `translate_error` makes it a DataError.
    """
    try:
        with explain_damaged_catalog():
            return catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        return None


def load_table(catalog: Catalog, name: str) -> Table:
    """Load a table.

    Raises:
        DataError: the catalog has no such table. A retry cannot help. The errors of `find_table` are raised as well.
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
        partition_columns: columns besides `date` by which the table is partitioned.

    Raises:
        DataError: the catalog does not list the table, but files of such a table exist. A retry cannot help.
    """
    identifier = (NAMESPACE, name)
    if catalog.table_exists(identifier):
        return
    _refuse_unlisted_table(catalog, name)
    try:
        transaction = catalog.create_table_transaction(identifier, schema, properties=TABLE_PROPERTIES)
        with transaction, transaction.update_spec() as spec:
            for column in (DATE_COLUMN, *partition_columns):
                spec.add_identity(column)
    except (TableAlreadyExistsError, CommitFailedException):
        return  # another process created it first


def has_configured_catalog() -> bool:
    """Return whether pyiceberg's own configuration names the catalog. If not, the embedded one is used.

    The embedded catalog is an SQLite database under LEEWAY_HOME.
    """
    return bool(configured_catalog.read_configuration())


def build_embedded_properties() -> dict[str, str]:
    """Return the properties of the SQLite catalog under LEEWAY_HOME; empty if another catalog is configured.

    The folder of the SQLite catalog is created if it does not exist.

    Raises:
        SpecError: pyiceberg's configuration of the other catalog is wrong. A retry cannot help.
    """
    if configuration := configured_catalog.read_configuration():
        configured_catalog.check_configuration(configuration)
        return {}
    path = get_embedded_file()
    create_home()
    path.parent.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{path}", "warehouse": path.parent.as_uri()}


def get_embedded_file() -> Path:
    """Return the path of the embedded catalog's database."""
    return settings().home / "lake" / "catalog.db"


def list_embedded_tables() -> dict[str, list[str]]:
    """Return the tables whose files are beside the embedded catalog, whether or not it lists them.

    Returns:
        Maps each name to the locations of the table's metadata files, the newest last; sorted by name.
    """
    return list_stored_tables(PyArrowFileIO(), f"{get_embedded_file().parent.as_uri()}/{NAMESPACE}")


def _refuse_lost_catalog() -> None:
    """Refuse to create a catalog if there are tables of a lost catalog, which the new one would not list.

    Raises:
        DataError: there are tables that no catalog lists. A retry cannot help.
    """
    path = get_embedded_file()
    # is_empty_database is called twice: another process may have created the catalog and a table in between.
    if is_empty_database(path) and list_embedded_tables() and is_empty_database(path):
        state = "is empty" if path.exists() else "does not exist"
        raise DataError(f"{path} {state}, but {path.parent / NAMESPACE} has tables.", RESTORE_LAKE)


def _refuse_empty_catalog(catalog: Catalog) -> None:
    """Refuse to use an empty catalog if the warehouse has tables: a lost catalog, or another one, listed them.

    Raises:
        DataError: there are tables that no catalog lists. A retry cannot help.
    """
    if (folder := get_tables_folder(catalog)) and list_stored_tables(load_io(catalog, folder), folder):
        if catalog.namespace_exists(NAMESPACE):  # another process has created it
            return
        raise DataError(f"the catalog is empty, but {_format_location(folder)} has tables.", RESTORE_LAKE)


def _refuse_unlisted_table(catalog: Catalog, name: str) -> None:
    """Refuse to create a table if files of a lost table with this name exist: the new table would hide their rows.

    Raises:
        DataError: there are files of a lost table with this name. A retry cannot help.
    """
    if (folder := get_tables_folder(catalog)) and list_stored_tables(load_io(catalog, folder), folder, name=name):
        if catalog.table_exists((NAMESPACE, name)):  # another process has created it
            return
        files = f"{_format_location(folder)}/{name}"
        raise DataError(f"the catalog does not list the table {name}, but {files} has its files.", RESTORE_LAKE)


def _format_location(location: str) -> str:
    return str(storage.get_local_path(location) or location)


def is_empty_database(path: Path) -> bool:
    """Return whether there is no database at `path`: no file, or one without content."""
    return not path.exists() or (path.is_file() and not path.stat().st_size)


@contextmanager
def explain_damaged_catalog() -> Iterator[None]:
    """Raise an error that names the catalog if its database cannot be read. Leave other errors unchanged."""
    if has_configured_catalog():
        with configured_catalog.explain_errors():
            yield
        return
    try:
        yield
    except DatabaseError as error:  # SQLAlchemy also raises it for a conflict
        translation = translate_known_error(error)
        if type(translation) is not DataError:
            raise
        reason = describe_reason(error.orig or error)
        raise DataError(f"{get_embedded_file()} cannot be read: {reason}.", RESTORE_LAKE) from None
