"""Read which version of a model is champion, without importing MLflow's library: a triggerer need not have it.

If the library is necessary, a child process imports it, with the interpreter of the steps.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import requests

from leeway.hooks.step.hook import get_interpreter
from pipelines.settings import settings

TIMEOUT_S = 20
"""Longest time that a request waits for MLflow, seconds."""
CHILD_TIMEOUT_S = 120
"""Longest time that the child process runs, seconds; it imports MLflow's library first."""
NO_MODEL_CODE, NO_ALIAS_TEXT = "RESOURCE_DOES_NOT_EXIST", "alias champion not found"
"""MLflow's error code if there is no such model, and a part of its error message if the model has no champion."""
LIBRARY_VARIABLES = (
    *("MLFLOW_TRACKING_AUTH", "MLFLOW_TRACKING_AWS_SIGV4"),
    *("MLFLOW_TRACKING_SERVER_CERT_PATH", "MLFLOW_TRACKING_CLIENT_CERT_PATH"),
)
"""Environment variables for ways of authentication that only MLflow's library implements."""
CHILD_CODE = """
import sys
from pipelines.registry.versions import Registry
champion = Registry.open().find_champion(sys.argv[1])
print("champion", champion.version if champion else "none")
"""


def read_champion(model: str) -> str:
    """Return the version that the alias `champion` names; empty if there is no model or no champion.

    Args:
        model: registered model.

    Raises:
        OSError: MLflow does not answer, or answers with something else than a version. A retry can help. Or
            MLFLOW_TRACKING_URI is not set.
        subprocess.TimeoutExpired: the child process did not end. A retry can help.
        SpecError: MLFLOW_TRACKING_URI is wrong. A retry cannot help.
    """
    uri = settings().mlflow_tracking_uri
    if not uri:
        raise OSError("there is no registry: MLFLOW_TRACKING_URI is not set")
    return _run_child(model) if needs_library() else _request_champion(uri, model)


def needs_library() -> bool:
    """Return whether reading the champion needs MLflow's library, and so a child process that uses a CPU for seconds.

    An HTTP server needs only a request, unless its credentials are in a file or in variables that only the library
    reads. Any other store needs the library: a database, SageMaker, Databricks.
    """
    is_http = settings().mlflow_tracking_uri.startswith("http")
    has_credentials_file = (Path.home() / ".mlflow/credentials").exists()
    return not is_http or has_credentials_file or any(os.environ.get(name) for name in LIBRARY_VARIABLES)


def _request_champion(uri: str, model: str) -> str:
    url = f"{uri.rstrip('/')}/api/2.0/mlflow/registered-models/alias"
    headers, login = {}, None
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    elif user := os.environ.get("MLFLOW_TRACKING_USERNAME"):
        login = (user, os.environ.get("MLFLOW_TRACKING_PASSWORD", ""))
    verifies_tls = os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() not in ("true", "1")
    query = {"name": model, "alias": "champion"}
    response = requests.get(url, query, headers=headers, auth=login, verify=verifies_tls, timeout=TIMEOUT_S)
    try:
        body = response.json()
        if response.ok:
            return str(body["model_version"]["version"])
        if body["error_code"] == NO_MODEL_CODE or NO_ALIAS_TEXT in body["message"]:
            return ""
    except (ValueError, LookupError, TypeError):
        pass  # a proxy answered, not MLflow
    raise OSError(f"MLflow answered {response.status_code}: {response.text[:200]!r}")


def _run_child(model: str) -> str:
    command = [get_interpreter(), "-c", CHILD_CODE, model]
    result = subprocess.run(
        command,
        check=False,
        cwd=settings().project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )
    name, _, version = result.stdout.rstrip().rpartition("\n")[2].partition(" ")
    if result.returncode or name != "champion":
        raise OSError(f"the registry cannot be read: {(result.stderr or result.stdout).strip()[-200:]}")
    return "" if version == "none" else version
