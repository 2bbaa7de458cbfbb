"""The commands of the stack's services, in the order in which they start, and Airflow's secrets."""

from __future__ import annotations

import json
import secrets
import sys
from base64 import urlsafe_b64encode

from pydantic import BaseModel

from stack.files import write_atomically
from stack.layout import Layout
from stack.services.record import Stack

USER = "admin"
API_SERVER, SCHEDULER = "airflow-api-server", "airflow-scheduler"


class Service(BaseModel):
    """A service, or a command that prepares one."""

    name: str
    argv: list[str]
    runs_once: bool = False
    """Whether the command ends by itself, with exit code 0, before the next service starts."""
    starts_after: str = ""
    """Name of a service that has to answer before each start of this one; empty where there is none."""


def list_services(layout: Layout, stack: Stack) -> list[Service]:
    """Return all services in the order in which they start. Each server listens on 127.0.0.1 only."""
    return [
        Service(
            name="drydock",
            argv=_build_command("drydock", *_list_address_options(stack.ports.drydock), "--data", str(layout.drydock)),
        ),
        Service(name="mlflow", argv=_build_mlflow_command(layout, stack)),
        Service(name="docs", argv=_build_docs_command(layout, stack)),
        Service(name="airflow-migrate", argv=_build_command("airflow", "db", "migrate"), runs_once=True),
        Service(name=API_SERVER, argv=_build_command("airflow", "api-server")),
        Service(name="airflow-dag-processor", argv=_build_command("airflow", "dag-processor")),
        # Airflow's log servers would listen on all interfaces. The API server reads the log files itself.
        Service(name="airflow-triggerer", argv=_build_command("airflow", "triggerer", "--skip-serve-logs")),
        # Each task asks the API server for permission to start. Without an answer, the task would fail.
        Service(
            name=SCHEDULER,
            argv=_build_command("airflow", "scheduler", "--skip-serve-logs"),
            starts_after=API_SERVER,
        ),
    ]


def write_secrets(layout: Layout) -> None:
    """Generate Airflow's keys and the admin password, in files of mode 0600. Existing files stay. Idempotent."""
    config = layout.airflow / "airflow.cfg"
    if not config.exists():
        fernet_key = urlsafe_b64encode(secrets.token_bytes(32)).decode()
        api_key, jwt_key = secrets.token_hex(32), secrets.token_hex(32)
        text = f"[core]\nfernet_key = {fernet_key}\n[api]\nsecret_key = {api_key}\n[api_auth]\njwt_secret = {jwt_key}\n"
        write_atomically(config, text)
    passwords = layout.airflow / "passwords.json"
    if not passwords.exists():
        write_atomically(passwords, json.dumps({USER: secrets.token_urlsafe(12)}))


def read_password(layout: Layout) -> str:
    """Return the password of Airflow's user `admin`."""
    return str(json.loads((layout.airflow / "passwords.json").read_text())[USER])


def _build_command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def _list_address_options(port: int) -> list[str]:
    return ["--host", "127.0.0.1", "--port", str(port)]


def _build_docs_command(layout: Layout, stack: Stack) -> list[str]:
    return _build_command("http.server", str(stack.ports.docs), "--bind", "127.0.0.1", "--directory", str(layout.docs))


def _build_mlflow_command(layout: Layout, stack: Stack) -> list[str]:
    database, artifacts = layout.mlflow / "mlflow.db", layout.mlflow / "artifacts"
    stores = ["--backend-store-uri", f"sqlite:///{database}", "--artifacts-destination", str(artifacts)]
    return _build_command("mlflow", "server", *stores, *_list_address_options(stack.ports.mlflow), "--workers", "1")
