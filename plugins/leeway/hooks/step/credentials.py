"""Turn the Airflow connection of a source into environment variables of the step that reads the source."""

from __future__ import annotations

import base64
import re
from typing import Any

from airflow.sdk import Connection
from airflow.sdk.bases.hook import BaseHook
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.log import mask_secret

POSTGRES = ("postgres", "postgresql")
OPEN = ("AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
"""Variables that are no secrets."""


def build_source_environment(conn_id: str) -> dict[str, str]:
    """Return the variables that a source's `url_env` and `headers_env` name. None of them is logged.

    The connection `flights_db` gives, by its type:

    - postgres, sqlite: FLIGHTS_DB_URL, for SQLAlchemy. Extras that begin with ssl are part of it.
    - http: FLIGHTS_DB_URL, the address; FLIGHTS_DB_AUTHORIZATION: Basic of login and password, Bearer of a password
      alone; each extra is a header: X-Api-Key becomes FLIGHTS_DB_X_API_KEY.
    - aws: AWS_ACCESS_KEY_ID and its like, of the role where it names one. They are the step's, so the lake's too.

    Args:
        conn_id: id of the connection; the variables' names begin with it, in capitals.

    Raises:
        AirflowFailException: the connection has another type. A retry cannot help.
    """
    connection = BaseHook.get_connection(conn_id)
    kind = (connection.conn_type or "").lower()
    if kind in (*POSTGRES, "sqlite"):
        values = _read_database_url(connection, kind)
    elif kind in ("http", "https"):
        values = _read_headers(connection)
    elif kind == "aws":
        return _mask_in_logs(_read_access_keys(conn_id))
    else:
        raise AirflowFailException(f"connection {conn_id} is of type {kind!r}. Known: postgres, sqlite, http, aws.")
    return _mask_in_logs({f"{_format_variable_name(conn_id)}_{name}": value for name, value in values.items() if value})


def _read_database_url(connection: Connection, kind: str) -> dict[str, str]:
    from sqlalchemy.engine import URL

    if kind == "sqlite":
        return {"URL": URL.create("sqlite", database=connection.host or connection.schema).render_as_string()}
    url = URL.create(
        "postgresql+psycopg",
        username=connection.login or None,
        password=connection.password or None,
        host=connection.host or None,
        port=connection.port,
        database=connection.schema or None,
        query={name: str(value) for name, value in connection.extra_dejson.items() if name.startswith("ssl")},
    )
    return {"URL": url.render_as_string(hide_password=False)}


def _read_headers(connection: Connection) -> dict[str, str]:
    host = connection.host or ""
    if host and "://" not in host:
        host = f"{connection.schema or connection.conn_type}://{host}"
    values = {"URL": f"{host}:{connection.port}" if connection.port else host}
    if connection.login:
        pair = f"{connection.login}:{connection.password or ''}"
        values["AUTHORIZATION"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif connection.password:
        values["AUTHORIZATION"] = f"Bearer {connection.password}"
    return values | {_format_variable_name(name): str(value) for name, value in connection.extra_dejson.items()}


def _read_access_keys(conn_id: str) -> dict[str, str]:
    from airflow.providers.amazon.aws.hooks.base_aws import AwsGenericHook

    hook: Any = AwsGenericHook(aws_conn_id=conn_id)
    keys = hook.get_credentials()
    values = {
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key,
        "AWS_SESSION_TOKEN": keys.token,
        "AWS_DEFAULT_REGION": hook.region_name,
        "AWS_ENDPOINT_URL": hook.conn_config.endpoint_url,
        "AWS_ENDPOINT_URL_S3": hook.conn_config.get_service_endpoint_url("s3"),
    }
    return {name: str(value) for name, value in values.items() if value}


def _format_variable_name(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII).upper()


def _mask_in_logs(values: dict[str, str]) -> dict[str, str]:
    """Mask the values in logs: Airflow knows the connection's password as a secret, but not what is made of it."""
    for name, value in values.items():
        if name not in OPEN and (not name.endswith("_URL") or "@" in value):
            mask_secret(value)
    return values
