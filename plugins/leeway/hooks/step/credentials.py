"""Turn Airflow connections into environment variables of steps: for the source of a dataset, and for all steps."""

from __future__ import annotations

import base64
import re
from typing import Any

from airflow.sdk import Connection
from airflow.sdk.bases.hook import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException
from airflow.sdk.log import mask_secret

from pipelines.settings import settings

POSTGRES_TYPES = ("postgres", "postgresql")
CATALOG_VARIABLE = "PYICEBERG_CATALOG__LEEWAY__URI"
"""Variable in which pyiceberg reads the address of the lake's catalog, with its password."""
PUBLIC_VARIABLES = ("AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
"""Variables that contain no secret, so that Airflow need not mask them."""


def build_source_environment(conn_id: str) -> dict[str, str]:
    """Return the variables from which a source reads its address and credentials. Airflow masks the secrets in logs.

    The source names the variables in its `url_env` and `headers_env`. For example, the connection `flights_db` gives
    these variables, depending on its type:

    - postgres, sqlite: FLIGHTS_DB_URL, a URL for SQLAlchemy. Extras whose names begin with ssl become parts of it.
    - http: FLIGHTS_DB_URL, the address; FLIGHTS_DB_AUTHORIZATION, Basic for a login and a password, Bearer for a
      password without a login; and a variable for each extra, as a header: X-Api-Key becomes FLIGHTS_DB_X_API_KEY.
    - aws: AWS_ACCESS_KEY_ID and the other variables of AWS; if the connection names a role, the role's credentials. The
      step uses these credentials for the lake, too.

    Args:
        conn_id: id of the connection; except for aws, the variables' names begin with it, in capitals.

    Raises:
        AirflowFailException: the connection has another type. A retry cannot help.
        AirflowNotFoundException: there is no such connection. A retry can help after it is created.
    """
    connection = BaseHook.get_connection(conn_id)
    conn_type = (connection.conn_type or "").lower()
    if conn_type in (*POSTGRES_TYPES, "sqlite"):
        values = _read_database_url(connection, conn_type)
    elif conn_type in ("http", "https"):
        values = _read_url_and_headers(connection)
    elif conn_type == "aws":
        return _mask_in_logs(_read_access_keys(conn_id))
    else:
        raise AirflowFailException(
            f"connection {conn_id} is of type {conn_type!r}: a source needs postgres, sqlite, http or aws."
        )
    return _mask_in_logs({f"{_format_variable_name(conn_id)}_{name}": value for name, value in values.items() if value})


def build_step_environment() -> dict[str, str]:
    """Return the variables with the credentials that every step needs. Airflow masks their secrets in logs.

    LEEWAY_AWS_CONN_ID names the connection for S3, and LEEWAY_LAKE_CONN_ID names the connection for the lake's catalog.
    If one of them is not set, the step uses the credentials in Airflow's own environment.

    Raises:
        AirflowFailException: a connection does not exist or has another type. A retry cannot help.
    """
    variables: dict[str, str] = {}
    try:
        if settings().lake_conn_id:
            variables |= _read_lake_catalog(settings().lake_conn_id)
        if aws_conn_id := settings().aws_conn_id:
            # This call fails if there is no such connection. The hook alone would use other credentials instead.
            BaseHook.get_connection(aws_conn_id)
            variables |= _read_access_keys(aws_conn_id)
    except AirflowNotFoundException as error:
        hint = "Create it, or change LEEWAY_AWS_CONN_ID or LEEWAY_LAKE_CONN_ID, which name it."
        raise AirflowFailException(f"{error} {hint}") from None
    return _mask_in_logs(variables)


def _read_lake_catalog(conn_id: str) -> dict[str, str]:
    connection = BaseHook.get_connection(conn_id)
    conn_type = (connection.conn_type or "").lower()
    if conn_type not in POSTGRES_TYPES:
        raise AirflowFailException(f"connection {conn_id} is of type {conn_type!r}: the lake's catalog needs postgres.")
    return {CATALOG_VARIABLE: _read_database_url(connection, conn_type)["URL"]}


def _read_database_url(connection: Connection, conn_type: str) -> dict[str, str]:
    from sqlalchemy.engine import URL

    if conn_type == "sqlite":
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


def _read_url_and_headers(connection: Connection) -> dict[str, str]:
    host = connection.host or ""
    if host and "://" not in host:
        host = f"{connection.schema or connection.conn_type}://{host}"
    values = {"URL": f"{host}:{connection.port}" if connection.port else host}
    if connection.login:
        login_and_password = f"{connection.login}:{connection.password or ''}"
        values["AUTHORIZATION"] = f"Basic {base64.b64encode(login_and_password.encode()).decode()}"
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


def _mask_in_logs(variables: dict[str, str]) -> dict[str, str]:
    """Make Airflow mask the secret values in logs.

    Airflow itself masks a password, but not the encoded form of the password in a URL or a header.
    """
    for name, value in variables.items():
        if name not in PUBLIC_VARIABLES and (not name.endswith("_URL") or "@" in value):
            mask_secret(value)
    return variables
