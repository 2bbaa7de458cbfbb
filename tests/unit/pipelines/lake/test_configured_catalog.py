"""Test that each mistake in the configuration of a catalog is an error that names the setting and shows no password."""

import pytest

from pipelines.errors import SpecError
from pipelines.lake.configured_catalog import check_configuration

POSTGRES = "postgresql+psycopg://lake:s3cret@127.0.0.1:5432/lake"
WAREHOUSE = "s3://leeway/lake"
WRONG: dict[str, tuple[dict[str, str], str]] = {
    "no URI": ({"warehouse": WAREHOUSE}, "URI is not set"),
    "SQL without URI": ({"type": "sql", "warehouse": WAREHOUSE}, "URI"),
    "no address": ({"type": "sql", "uri": "notaurl", "warehouse": WAREHOUSE}, "URI"),
    "an unknown scheme": ({"type": "sql", "uri": "foo://lake:s3cret@x/y", "warehouse": WAREHOUSE}, "URI"),
    "an unknown driver": ({"uri": POSTGRES.replace("psycopg", "nodriver"), "warehouse": WAREHOUSE}, "URI"),
    "no driver installed": ({"type": "sql", "uri": "mysql://lake:s3cret@h/d", "warehouse": WAREHOUSE}, "URI"),
    "a port that is not a number": ({"uri": POSTGRES.replace("5432", "5432x"), "warehouse": WAREHOUSE}, "URI"),
    "an unknown type": ({"type": "nonsense", "uri": "http://h"}, "TYPE"),
    "a type that cannot be inferred": ({"uri": "ftp://lake:s3cret@h"}, "TYPE"),
    "no warehouse": ({"type": "sql", "uri": POSTGRES}, "WAREHOUSE is not set"),
    "an unknown kind of warehouse": ({"uri": POSTGRES, "warehouse": "foo://bucket/x"}, "WAREHOUSE"),
}
VALID = (
    *({"type": "sql", "uri": POSTGRES, "warehouse": warehouse} for warehouse in (WAREHOUSE, "/data", "file:///data")),
    {"uri": "sqlite:////data/catalog.db", "warehouse": "/data"},
    {"uri": "https://catalog"},
    {"type": "rest", "uri": "https://catalog"},
    {"type": "glue"},
    {"py-catalog-impl": "mine.Catalog"},
)


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_refused(case: str) -> None:
    properties, setting = WRONG[case]
    with pytest.raises(SpecError, match=f"PYICEBERG_CATALOG__LEEWAY__{setting}") as error:
        check_configuration(properties)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("properties", VALID)
def test_a_valid_configuration_is_accepted(properties: dict[str, str]) -> None:
    """This is the negative control."""
    check_configuration(properties)
