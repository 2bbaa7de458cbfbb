"""The services of the stack: what is started, in which order, and when it is ready."""

from __future__ import annotations

import json
import secrets
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import datetime
from typing import Any

import requests
from pydantic import BaseModel

from stack.layout import Layout
from stack.services.record import Stack, write_atomically

USER = "admin"
AIRFLOW_COMPONENTS = {"scheduler": "scheduler", "dag_processor": "dag-processor", "triggerer": "triggerer"}
"""Name in Airflow's health report to command."""
_TIMEOUT_S = 5.0


class Service(BaseModel):
    """One command of the stack."""

    name: str
    argv: list[str]
    once: bool = False
    """Ends by itself, with 0, before the next one is started."""


def services(layout: Layout, stack: Stack) -> list[Service]:
    """All services, in the order of their start. Apart from the server's main process, all bind nothing."""
    return [
        Service(name="drydock", argv=_python("drydock", *_at(stack.ports.drydock), "--data", str(layout.drydock))),
        Service(name="mlflow", argv=_mlflow(layout, stack)),
        Service(name="docs", argv=_docs(layout, stack)),
        Service(name="airflow-migrate", argv=_python("airflow", "db", "migrate"), once=True),
        # The log servers would listen on all interfaces; the logs are files that the API server reads itself.
        Service(name="airflow-scheduler", argv=_python("airflow", "scheduler", "--skip-serve-logs")),
        Service(name="airflow-dag-processor", argv=_python("airflow", "dag-processor")),
        Service(name="airflow-api-server", argv=_python("airflow", "api-server")),
        Service(name="airflow-triggerer", argv=_python("airflow", "triggerer", "--skip-serve-logs")),
    ]


def write_secrets(layout: Layout) -> None:
    """Leaves Airflow's keys and the password, made where missing, in files that only the owner can read."""
    config = layout.airflow / "airflow.cfg"
    if not config.exists():
        fernet = urlsafe_b64encode(secrets.token_bytes(32)).decode()
        key, jwt = secrets.token_hex(32), secrets.token_hex(32)
        text = f"[core]\nfernet_key = {fernet}\n[api]\nsecret_key = {key}\n[api_auth]\njwt_secret = {jwt}\n"
        write_atomically(config, text)
    passwords = layout.airflow / "passwords.json"
    if not passwords.exists():
        write_atomically(passwords, json.dumps({USER: secrets.token_urlsafe(12)}))


def password(layout: Layout) -> str:
    """The password of the user `admin`."""
    return str(json.loads((layout.airflow / "passwords.json").read_text())[USER])


def health_checks(stack: Stack) -> dict[str, Callable[[], bool]]:
    """What has to answer, by the service's name; each check is False, not an error, where nothing answers."""
    checks: dict[str, Callable[[], bool]] = {
        "drydock": lambda: _get(f"{stack.drydock_url}/drydock/health") is not None,
        "mlflow": lambda: _get(f"{stack.mlflow_url}/health") is not None,
        "docs": lambda: _get(stack.docs_url) is not None,
        "airflow-api-server": lambda: _airflow(stack) is not None,
    }
    for component, command in AIRFLOW_COMPONENTS.items():
        checks[f"airflow-{command}"] = lambda component=component: _beats(stack, component)  # type: ignore[misc]
    return checks


def _beats(stack: Stack, component: str) -> bool:
    report = (_airflow(stack) or {}).get(component) or {}
    beat = report.get(f"latest_{component}_heartbeat")
    if report.get("status") != "healthy" or not beat:
        return False
    # A heartbeat of the last life still counts as healthy for half a minute.
    return datetime.fromisoformat(beat) >= stack.started_at


def _airflow(stack: Stack) -> dict[str, Any] | None:
    answer = _get(f"{stack.airflow_url}/api/v2/monitor/health")
    return answer.json() if answer is not None else None


def _get(url: str) -> requests.Response | None:
    try:
        with requests.Session() as session:
            session.trust_env = False  # no proxy between us and this machine
            answer = session.get(url, timeout=_TIMEOUT_S)
    except requests.RequestException:
        return None
    return answer if answer.ok else None


def _python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def _at(port: int) -> list[str]:
    return ["--host", "127.0.0.1", "--port", str(port)]


def _docs(layout: Layout, stack: Stack) -> list[str]:
    return _python("http.server", str(stack.ports.docs), "--bind", "127.0.0.1", "--directory", str(layout.docs))


def _mlflow(layout: Layout, stack: Stack) -> list[str]:
    database, artifacts = layout.mlflow / "mlflow.db", layout.mlflow / "artifacts"
    stores = ["--backend-store-uri", f"sqlite:///{database}", "--artifacts-destination", str(artifacts)]
    return _python("mlflow", "server", *stores, *_at(stack.ports.mlflow), "--workers", "1")
