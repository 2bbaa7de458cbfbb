"""Airflow connections, as the environment of a step."""

import base64
import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.step import credentials
from sqlalchemy.engine import make_url


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(conn_id: str = "shop-db", **fields: Any) -> dict[str, str]:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))
        return credentials.build_source_environment(conn_id)

    return made


@pytest.fixture
def masked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(credentials, "mask_secret", told.append)
    return told


def test_a_database_becomes_a_url_and_a_secret(connection: Any, masked: list[str]) -> None:
    found = connection(
        conn_type="postgres",
        host="h",
        port=1,
        login="me",
        password="p@ss/w:rd",
        schema="shop",
        extra={"sslmode": "require"},
    )
    assert list(found) == ["SHOP_DB_URL"] == [name for name, value in found.items() if value in masked]
    url = make_url(found["SHOP_DB_URL"])
    assert (url.drivername, url.username, url.password, url.host) == ("postgresql+psycopg", "me", "p@ss/w:rd", "h")
    assert (url.port, url.database, dict(url.query)) == (1, "shop", {"sslmode": "require"})
    assert connection(conn_type="sqlite", host="/tmp/shop.db") == {"SHOP_DB_URL": "sqlite:////tmp/shop.db"}


def test_an_api_becomes_headers_and_secrets(connection: Any, masked: list[str]) -> None:
    found = connection("shop", conn_type="http", host="h", schema="https", password="t", extra={"X-Api-Key": "k"})
    assert found == {"SHOP_URL": "https://h", "SHOP_AUTHORIZATION": "Bearer t", "SHOP_X_API_KEY": "k"}
    assert masked == ["Bearer t", "k"]
    found = connection("shop", conn_type="http", host="http://h", port=8, login="me", password="p")
    assert found == {"SHOP_URL": "http://h:8", "SHOP_AUTHORIZATION": f"Basic {base64.b64encode(b'me:p').decode()}"}


def test_aws_becomes_its_own_variables(connection: Any, masked: list[str]) -> None:
    extra = {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:5005"}
    assert connection("store", conn_type="aws", login="AKIA", password="s", extra=extra) == {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:5005",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:5005",
    }
    assert masked == ["AKIA", "s"]


def test_an_s3_of_its_own_is_that_of_the_connection(connection: Any, masked: list[str]) -> None:
    """What the worker's environment says of S3 would go before the connection's address for all."""
    apart = {"service_config": {"s3": {"endpoint_url": "http://s3:8333"}}}
    found = connection("store", conn_type="aws", login="AKIA", password="s", extra=apart)
    assert {name: value for name, value in found.items() if "URL" in name} == {"AWS_ENDPOINT_URL_S3": "http://s3:8333"}
    assert masked == ["AKIA", "s"]
    found = connection("store", conn_type="aws", login="AKIA", password="s", extra={})
    assert not [name for name in found if "URL" in name], "it is AWS, or what the worker's environment says"


def test_another_kind_is_refused_without_its_password(connection: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"shop-db is of type 'ftp'. Known: postgres") as caught:
        connection(conn_type="ftp", host="h", password="hunter2")
    assert "hunter2" not in str(caught.value)
