"""Test how Airflow connections become environment variables of a step."""

import base64
import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.step import credentials
from sqlalchemy.engine import make_url


@pytest.fixture
def read_connection(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the function that defines a connection and returns its variables."""

    def read(conn_id: str = "shop-db", **fields: Any) -> dict[str, str]:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))
        return credentials.build_source_environment(conn_id)

    return read


@pytest.fixture
def masked_values(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the values that are masked."""
    values: list[str] = []
    monkeypatch.setattr(credentials, "mask_secret", values.append)
    return values


def test_database_connection_becomes_a_secret_url(read_connection: Any, masked_values: list[str]) -> None:
    variables = read_connection(
        conn_type="postgres",
        host="h",
        port=1,
        login="me",
        password="p@ss/w:rd",
        schema="shop",
        extra={"sslmode": "require"},
    )
    assert list(variables) == ["SHOP_DB_URL"] == [name for name, value in variables.items() if value in masked_values]
    url = make_url(variables["SHOP_DB_URL"])
    assert (url.drivername, url.username, url.password, url.host) == ("postgresql+psycopg", "me", "p@ss/w:rd", "h")
    assert (url.port, url.database, dict(url.query)) == (1, "shop", {"sslmode": "require"})
    assert read_connection(conn_type="sqlite", host="/tmp/shop.db") == {"SHOP_DB_URL": "sqlite:////tmp/shop.db"}


def test_http_connection_becomes_a_url_and_secret_headers(read_connection: Any, masked_values: list[str]) -> None:
    variables = read_connection(
        "shop", conn_type="http", host="h", schema="https", password="t", extra={"X-Api-Key": "k"}
    )
    assert variables == {"SHOP_URL": "https://h", "SHOP_AUTHORIZATION": "Bearer t", "SHOP_X_API_KEY": "k"}
    assert masked_values == ["Bearer t", "k"]
    variables = read_connection("shop", conn_type="http", host="http://h", port=8, login="me", password="p")
    assert variables == {"SHOP_URL": "http://h:8", "SHOP_AUTHORIZATION": f"Basic {base64.b64encode(b'me:p').decode()}"}


def test_aws_connection_becomes_the_variables_of_aws(read_connection: Any, masked_values: list[str]) -> None:
    extra = {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:5005"}
    assert read_connection("store", conn_type="aws", login="AKIA", password="s", extra=extra) == {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:5005",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:5005",
    }
    assert masked_values == ["AKIA", "s"]


def test_connection_may_have_its_own_address_of_s3(read_connection: Any, masked_values: list[str]) -> None:
    """An AWS_ENDPOINT_URL_S3 of the worker's environment would override the connection's address of all services."""
    extra = {"service_config": {"s3": {"endpoint_url": "http://s3:8333"}}}
    variables = read_connection("store", conn_type="aws", login="AKIA", password="s", extra=extra)
    urls = {name: value for name, value in variables.items() if "URL" in name}
    assert urls == {"AWS_ENDPOINT_URL_S3": "http://s3:8333"}
    assert masked_values == ["AKIA", "s"]
    variables = read_connection("store", conn_type="aws", login="AKIA", password="s", extra={})
    assert not [name for name in variables if "URL" in name], (
        "no address is set: the step uses AWS itself, or the address in the worker's environment"
    )


def test_error_of_an_unknown_type_does_not_show_the_password(read_connection: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"shop-db is of type 'ftp': a source needs postgres") as error:
        read_connection(conn_type="ftp", host="h", password="hunter2")
    assert "hunter2" not in str(error.value)


@pytest.fixture
def set_step_connections(monkeypatch: pytest.MonkeyPatch, fresh_settings: Any) -> Any:
    """Return the function that sets the connections of all steps, and returns their variables."""

    def set_connections(**connections: dict[str, Any]) -> dict[str, str]:
        for name, fields in connections.items():
            monkeypatch.setenv(f"LEEWAY_{name.upper()}_CONN_ID", f"team_{name}")
            if fields:
                monkeypatch.setenv(f"AIRFLOW_CONN_TEAM_{name.upper()}", json.dumps(fields))
        fresh_settings()
        return credentials.build_step_environment()

    return set_connections


LAKE = {"conn_type": "postgres", "host": "db", "port": 5432, "login": "lake", "password": "p@ss", "schema": "lake"}
KEYS = {"conn_type": "aws", "login": "AKIATEAM", "password": "team-secret", "extra": {"region_name": "us-east-1"}}


def test_every_step_gets_the_catalog_and_the_keys_from_connections(
    set_step_connections: Any, masked_values: list[str]
) -> None:
    variables = set_step_connections(lake=LAKE, aws=KEYS)
    assert variables == {
        "PYICEBERG_CATALOG__LEEWAY__URI": "postgresql+psycopg://lake:p%40ss@db:5432/lake",
        "AWS_ACCESS_KEY_ID": "AKIATEAM",
        "AWS_SECRET_ACCESS_KEY": "team-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    assert {"postgresql+psycopg://lake:p%40ss@db:5432/lake", "AKIATEAM", "team-secret"} <= set(masked_values)


def test_without_connections_a_step_inherits_what_airflow_has(set_step_connections: Any) -> None:
    assert set_step_connections() == {}


@pytest.mark.parametrize(
    ("connections", "message"),
    [
        ({"lake": {}}, "team_lake.*LEEWAY_LAKE_CONN_ID"),
        ({"aws": {}}, "team_aws.*LEEWAY_AWS_CONN_ID"),
        ({"lake": KEYS}, "connection team_lake is of type 'aws': the lake's catalog needs postgres"),
    ],
)
def test_a_wrong_connection_of_the_steps_fails_without_retries(
    set_step_connections: Any, connections: dict[str, Any], message: str
) -> None:
    with pytest.raises(AirflowFailException, match=message):
        set_step_connections(**connections)
