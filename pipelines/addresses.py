"""Check the addresses of services.

This module imports only the standard library, because the settings import it, and Airflow imports the settings.
"""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from urllib.parse import SplitResult, urlsplit

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
"""Schemes of MLflow's databases; a driver may follow, as in `postgresql+psycopg`."""
SAGEMAKER_ARN = re.compile(r"arn:[\w-]+:sagemaker:[\w-]+:\d{12}:[\w-]+/.+")
"""ARN of an MLflow server in SageMaker. The plugin sagemaker-mlflow accepts it as an address."""
BUILT_IN_STORES = ("databricks", "databricks-uc", "uc")
"""Schemes of Databricks stores, for which MLflow needs no plugin. A scheme alone is an address, too."""


def check_http_address(address: str) -> str:
    """Check the address of an HTTP service, and return it. An empty address is valid: there is no service.

    Raises:
        ValueError: the address is not http://HOST or https://HOST with an optional port and path. The text says what
            is wrong.
    """
    if not address:
        return address
    if not address.isprintable() or " " in address:
        raise ValueError("the address contains a space or a control character")
    url = urlsplit(address)  # raises ValueError if the bracket of an IPv6 address is not closed
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError("the address must have the form http://HOST:PORT or https://HOST")
    _check_port(url)
    return address


def check_mlflow_address(address: str) -> str:
    """Check the address of MLflow, and return it. An empty address is valid: there is no MLflow.

    The address may name an HTTP server, a database, a Databricks store, or a store of an installed plugin of MLflow.

    Raises:
        ValueError: the address has none of these forms. The text says what is wrong.
    """
    scheme = address.partition(":")[0].lower()
    if scheme.partition("+")[0] in DATABASES and "://" in address:
        _check_port(urlsplit(f"//{address.partition('://')[2].rpartition('@')[2]}"))  # a password may contain a slash
        return address
    if scheme == "arn" and not SAGEMAKER_ARN.fullmatch(address):
        raise ValueError("the ARN must have the form arn:aws:sagemaker:REGION:ACCOUNT:mlflow-tracking-server/NAME")
    if scheme in ("", "http", "https") or scheme not in (*BUILT_IN_STORES, *_list_plugin_schemes()):
        return check_http_address(address)
    return address


def _check_port(url: SplitResult) -> None:
    try:
        is_valid_port = url.port != 0
    except ValueError:
        is_valid_port = False
    if not is_valid_port or url.netloc.endswith(":"):
        raise ValueError("the port of the address must be a number from 1 to 65535")


def _list_plugin_schemes() -> list[str]:
    """Return the schemes of the stores that are installed as plugins of MLflow, such as `arn` of sagemaker-mlflow."""
    return [point.name for point in entry_points(group="mlflow.tracking_store")]
