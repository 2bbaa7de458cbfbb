"""Test Airflow's connections in AWS Secrets Manager, with the settings that infra/terraform gives to MWAA."""

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
CONNECTIONS: dict[str, dict[str, Any]] = {
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
from leeway.hooks.step.credentials import build_source_environment
connections = {name: Connection.get(name) for name in json.loads(__import__("sys").argv[1])}
result = {name: [connection.conn_type, connection.password] for name, connection in connections.items()}
try:
    Connection.get("nobody_has_it")
except AirflowNotFoundException as error:
    result["missing"] = str(error)
print(json.dumps({**result, "source": build_source_environment("flights_db")}))
"""


@pytest.fixture
def environment(set_aws_variables: None, tmp_path: Path) -> dict[str, str]:
    """Return the environment of an Airflow whose connections are all in Secrets Manager."""
    text = (ROOT / "infra" / "terraform" / "mwaa.tf").read_text()
    (name,) = re.findall(r'"secrets.backend"\s+= "(\S+)"', text)
    (prefix,) = re.findall(r'connections_prefix\s+= "(\S+)"', text)
    kwargs = {"connections_prefix": prefix, "variables_prefix": None, "config_prefix": None}
    inherited_variables = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW_CONN_")}
    return {
        **inherited_variables,
        "AIRFLOW__SECRETS__BACKEND": name,
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps(kwargs),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}",
    }


def test_airflow_reads_every_connection_from_secrets_manager(
    drydock: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    client = drydock.client("secretsmanager")
    for name, connection in CONNECTIONS.items():
        client.create_secret(Name=f"leeway/connections/{name}", SecretString=json.dumps(connection))
    command = [sys.executable, "-c", READ, json.dumps([*CONNECTIONS])]
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-3_000:]
    result = json.loads(process.stdout.splitlines()[-1])
    for name, connection in CONNECTIONS.items():
        assert result[name] == [connection["conn_type"], connection.get("password")]
    assert "nobody_has_it" in result["missing"]
    assert result["source"] == {"FLIGHTS_DB_URL": "postgresql+psycopg://reader:canary-of-the-db@db"}
    assert "canary" not in process.stderr, "the log contains no secret"
