"""Airflow's connections out of AWS Secrets Manager, with the settings that infra/terraform gives to MWAA."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
CONNECTIONS = {
    "aws_default": {"conn_type": "aws", "extra": {"region_name": "eu-west-1"}},
    "smtp_default": {
        "conn_type": "smtp",
        "host": "mail.example.com",
        "login": "mate",
        "password": "canary-of-the-mail",
    },
    "slack_default": {"conn_type": "slackwebhook", "password": "T0/B0/canary-of-slack"},
    "flights_db": {"conn_type": "postgres", "host": "db", "login": "reader", "password": "canary-of-the-db"},
}
READ = """
import json
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from leeway.hooks.step.credentials import source_environment
found = {name: Connection.get(name) for name in json.loads(__import__("sys").argv[1])}
told = {name: [one.conn_type, one.password] for name, one in found.items()}
try:
    Connection.get("nobody_has_it")
except AirflowNotFoundException as error:
    told["missing"] = str(error)
print(json.dumps({**told, "source": source_environment("flights_db")}))
"""


@pytest.fixture
def backend(set_aws_variables: None, tmp_path: Path) -> dict[str, str]:
    """The environment of an Airflow whose only connections are in Secrets Manager."""
    text = (ROOT / "infra" / "terraform" / "mwaa.tf").read_text()
    (name,) = re.findall(r'"secrets.backend"\s+= "(\S+)"', text)
    (prefix,) = re.findall(r'connections_prefix\s+= "(\S+)"', text)
    kwargs = {"connections_prefix": prefix, "variables_prefix": None, "config_prefix": None}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW_CONN_")}
    return {
        **kept,
        "AIRFLOW__SECRETS__BACKEND": name,
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps(kwargs),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}",
    }


def test_every_connection_comes_out_of_the_secrets_manager(
    drydock: Any, backend: dict[str, str], tmp_path: Path
) -> None:
    client = drydock.client("secretsmanager")
    for name, connection in CONNECTIONS.items():
        client.create_secret(Name=f"leeway/connections/{name}", SecretString=json.dumps(connection))
    command = [sys.executable, "-c", READ, json.dumps([*CONNECTIONS])]
    done = subprocess.run(command, cwd=tmp_path, env=backend, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3_000:]
    told = json.loads(done.stdout.splitlines()[-1])
    for name, connection in CONNECTIONS.items():
        assert told[name] == [connection["conn_type"], connection.get("password")]
    assert "nobody_has_it" in told["missing"]
    assert told["source"] == {"FLIGHTS_DB_URL": "postgresql+psycopg://reader:canary-of-the-db@db"}
    assert "canary" not in done.stderr, "the log of it shows no secret"
