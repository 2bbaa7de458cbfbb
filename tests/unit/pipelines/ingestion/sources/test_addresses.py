"""Test which addresses have a secret."""

import pytest

from pipelines.errors import SpecError
from pipelines.ingestion.sources.addresses import has_secret, read_address, redact


@pytest.mark.parametrize(
    "address",
    [
        "http://bob:x@host/a.csv",
        "https://token@host/a.csv",
        "https://host/a?api_key=x",
        "https://host/a?page=1&X-Amz-Signature=x",
        "postgresql+psycopg://bob:x@host/db",
        "postgresql://host/db?password=x",
        "s3://key:x@bucket/a.csv",
        "ftp://bob:x@host/a.csv",
    ],
)
def test_an_address_with_a_secret(address: str) -> None:
    assert has_secret(address)
    assert "x" not in redact(address.replace("X-Amz-Signature", "Signature"))


@pytest.mark.parametrize(
    "address",
    [
        "/data/a@b:c.csv",
        "https://host/{date}?page=1",
        "postgresql://bob@host/db",
        "sqlite:////data/shop.db",
        "s3://bucket/a@b/c:d.csv",
        "http://host/a@b:c.csv?design=1&keyword=a&monkey=2",
    ],
)
def test_an_address_without_a_secret(address: str) -> None:
    assert not has_secret(address)
    assert redact("postgresql://bob@host/db?sslmode=require") == "postgresql://host/db?sslmode=require"


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_URL", "")
    with pytest.raises(SpecError, match="the environment variable ORDERS_URL is not set"):
        read_address("ORDERS_URL")
    monkeypatch.setenv("ORDERS_URL", "http://host")
    assert read_address("ORDERS_URL") == "http://host"
