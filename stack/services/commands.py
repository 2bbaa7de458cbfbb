"""List the stack's services with their command lines, and write Airflow's keys and password."""

from __future__ import annotations

import json
import secrets
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from pathlib import Path

from pydantic import BaseModel

from stack.errors import RequestError
from stack.files import write_atomically
from stack.layout import PROGRAM, Layout
from stack.services.record import Stack

USER = "admin"
"""Name of Airflow's user."""
API_SERVER, SCHEDULER, STATUS = "airflow-api-server", "airflow-scheduler", "status"
_KEYS = (("core", "fernet_key"), ("api", "secret_key"), ("api_auth", "jwt_secret"))
"""Section and option of each of Airflow's keys in airflow.cfg."""
_FERNET_BYTES = 32


class Service(BaseModel):
    """A process that the supervisor starts: a server, or a preparation that runs once, such as `airflow db migrate`."""

    name: str
    argv: list[str]
    runs_once: bool = False
    """Whether the process ends by itself. The services after it start once it has ended with exit code 0."""
    starts_after: str = ""
    """Name of a service that has to answer before each start of this one; empty if there is none."""


def list_services(layout: Layout, stack: Stack) -> list[Service]:
    """Return all services in the order in which they start. Each server listens on 127.0.0.1 only."""
    return [
        Service(
            name="drydock",
            argv=_build_command("drydock", *_list_address_options(stack.ports.drydock), "--data", str(layout.drydock)),
        ),
        Service(name="mlflow", argv=_build_mlflow_command(layout, stack)),
        Service(name="docs", argv=_build_docs_command(layout, stack)),
        Service(name=STATUS, argv=_build_command("pipelines", "status", "--watch")),
        Service(name="airflow-migrate", argv=_build_command("airflow", "db", "migrate"), runs_once=True),
        Service(name=API_SERVER, argv=_build_command("airflow", "api-server")),
        Service(name="airflow-dag-processor", argv=_build_command("airflow", "dag-processor")),
        # Airflow's log servers would listen on all interfaces. The API server reads the log files itself.
        Service(name="airflow-triggerer", argv=_build_command("airflow", "triggerer", "--skip-serve-logs")),
        # At its start, each task sends a request to the API server. Without an answer, the task would fail.
        Service(
            name=SCHEDULER,
            argv=_build_command("airflow", "scheduler", "--skip-serve-logs"),
            starts_after=API_SERVER,
        ),
    ]


def write_secrets(layout: Layout) -> None:
    """Generate Airflow's keys and the admin password, in files of mode 0600. Existing files are kept. Idempotent.

    A damaged file with the password is replaced. A file with damaged keys is not replaced: with new keys, Airflow could
    not read the connections that it has stored.

    Raises:
        RequestError: a key in airflow.cfg is missing or damaged. A retry cannot help.
    """
    config = layout.airflow / "airflow.cfg"
    if config.exists():
        _check_keys(config)
    else:
        fernet_key = urlsafe_b64encode(secrets.token_bytes(_FERNET_BYTES)).decode()
        api_key, jwt_key = secrets.token_hex(32), secrets.token_hex(32)
        text = f"[core]\nfernet_key = {fernet_key}\n[api]\nsecret_key = {api_key}\n[api_auth]\njwt_secret = {jwt_key}\n"
        write_atomically(config, text)
    if not _find_password(layout):
        write_atomically(layout.airflow / "passwords.json", json.dumps({USER: secrets.token_urlsafe(12)}))


def read_password(layout: Layout) -> str:
    """Return the password of Airflow's user `admin`.

    Raises:
        RequestError: the file with the password is missing or damaged. A retry cannot help.
    """
    password = _find_password(layout)
    if not password:
        path = layout.airflow / "passwords.json"
        raise RequestError(f"{path} has no password of {USER}; `{PROGRAM} down` and `{PROGRAM} up` create another.")
    return password


def _find_password(layout: Layout) -> str:
    """Return the password of Airflow's user `admin`; empty if its file is missing or damaged."""
    try:
        password = json.loads((layout.airflow / "passwords.json").read_text())[USER]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""
    return password if isinstance(password, str) else ""


def _check_keys(config: Path) -> None:
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(config.read_text())
        is_complete = all(parser.get(section, option) for section, option in _KEYS)
        is_complete = is_complete and len(urlsafe_b64decode(parser.get("core", "fernet_key"))) == _FERNET_BYTES
    except (ConfigParserError, ValueError):  # ValueError: not UTF-8, or the key is cut
        is_complete = False
    if not is_complete:
        raise RequestError(
            f"{config} is damaged: it lacks one of Airflow's keys. Restore a backup (`{PROGRAM} restore`), or remove "
            "the file. In the second case you get new keys, and Airflow cannot read the connections that it has stored."
        )


def _build_command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def _list_address_options(port: int) -> list[str]:
    return ["--host", "127.0.0.1", "--port", str(port)]


def _build_docs_command(layout: Layout, stack: Stack) -> list[str]:
    return _build_command("http.server", str(stack.ports.docs), "--bind", "127.0.0.1", "--directory", str(layout.docs))


def _build_mlflow_command(layout: Layout, stack: Stack) -> list[str]:
    database, artifacts = layout.mlflow / "mlflow.db", layout.mlflow / "artifacts"
    options = ["--artifacts-destination", str(artifacts), *_list_address_options(stack.ports.mlflow), "--workers", "1"]
    return _build_command("stack.services.mlflow_server", str(database), *options)
