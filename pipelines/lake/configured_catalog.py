"""Check pyiceberg's configuration of the catalog, and translate the errors of this catalog.

A catalog is configured by the environment variables `PYICEBERG_CATALOG__LEEWAY__...` or by .pyiceberg.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog import CatalogType, infer_catalog_type
from pyiceberg.exceptions import NotInstalledError
from pyiceberg.io import SCHEMA_TO_FILE_IO
from pyiceberg.utils.config import Config
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from pipelines.errors import DataError, ServiceError, SpecError
from pipelines.lake.commits import NAMESPACE
from pipelines.system.error_translation import describe_reason, translate_known_error

VARIABLE_PREFIX = f"PYICEBERG_CATALOG__{NAMESPACE.upper()}__"
"""Prefix of the environment variables; .pyiceberg.yaml has the same settings in another form."""
DATABASE_HINT = (
    "Write it as postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE or sqlite:////FILE; a password's special "
    "characters need %-encoding."
)


def read_configuration() -> dict[str, Any]:
    """Return the properties of the configured catalog; empty if none is configured."""
    return dict(Config().get_catalog_config(NAMESPACE) or {})


def check_configuration(properties: Mapping[str, Any]) -> None:
    """Check the properties of a configured catalog.

    Raises:
        SpecError: a property is wrong or missing. The message does not show an address, which may hold a password.
            A retry cannot help.
    """
    if "py-catalog-impl" in properties:
        return
    if not properties.get("type") and not properties.get("uri"):
        raise SpecError(f"the lake's catalog has no address: {VARIABLE_PREFIX}URI is not set.", DATABASE_HINT)
    try:
        catalog_type = CatalogType(str(properties["type"]).lower()) if "type" in properties else None
        catalog_type = catalog_type or infer_catalog_type(NAMESPACE, dict(properties))
    except ValueError:
        known_types = ", ".join(kind.value for kind in CatalogType)
        raise SpecError(f"{VARIABLE_PREFIX}TYPE is missing or unknown.", f"Use one of: {known_types}.") from None
    if catalog_type is CatalogType.SQL:
        _check_database(str(properties.get("uri", "")))
        _check_warehouse(str(properties.get("warehouse", "")))


def _check_database(uri: str) -> None:
    try:
        make_url(uri).get_dialect().import_dbapi()
    except (ArgumentError, ValueError, NoSuchModuleError, ImportError):  # the last two: the driver is not installed
        raise SpecError(
            f"{VARIABLE_PREFIX}URI is not the address of a database that can be used here.", DATABASE_HINT
        ) from None


def _check_warehouse(warehouse: str) -> None:
    if not warehouse or urlsplit(warehouse).scheme not in ("", *SCHEMA_TO_FILE_IO):
        state = "begins with an unknown scheme" if warehouse else "is not set"
        raise SpecError(
            f"{VARIABLE_PREFIX}WAREHOUSE {state}.",
            "Write a folder, or s3://BUCKET/PREFIX, in which the tables are stored.",
        )


@contextmanager
def explain_errors() -> Iterator[None]:
    """Translate errors of a block that opens the configured catalog or reads its database: name the catalog in them.

    Other errors are raised unchanged.

    Raises:
        SpecError: a library that the catalog needs is not installed. A retry cannot help.
        DataError: the database of the catalog cannot be read. A retry cannot help.
        ServiceError: the database does not answer. A retry can help.
    """
    try:
        yield
    except DatabaseError as error:  # SQLAlchemy also raises it for a conflict
        translation = translate_known_error(error)
        reason = describe_reason(error.orig or error)
        if isinstance(translation, ServiceError):
            hint = f"Check {VARIABLE_PREFIX}URI, and whether the database is up."
            raise ServiceError(f"the lake's catalog does not answer: {reason}.", hint) from None
        if type(translation) is DataError:
            raise DataError(f"the lake's catalog cannot be read: {reason}.", f"Check {VARIABLE_PREFIX}URI.") from None
        raise
    except NotInstalledError as error:
        raise SpecError(f"the lake's catalog cannot be opened: {describe_reason(error)}.") from None
