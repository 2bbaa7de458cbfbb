"""Test the environment and the secrets that services start with."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stack.layout import Layout
from stack.services import commands, environment
from stack.services.record import Ports, Stack


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "dags").mkdir()
    layout = Layout(home=tmp_path / "home", project=tmp_path)
    layout.create_folders()
    return layout


@pytest.fixture
def stack(layout: Layout) -> Stack:
    ports = Ports(airflow=11, mlflow=12, drydock=13, docs=14)
    return Stack(id="one", project=layout.project, started_at=datetime.now(UTC), ports=ports)


def test_does_not_inherit_settings_of_another_installation(layout, stack):
    caller = {
        "AWS_PROFILE": "work",
        "AIRFLOW__CORE__EXECUTOR": "Other",
        "MLFLOW_TRACKING_TOKEN": "x",
        "PYICEBERG_CATALOG__LEEWAY__TYPE": "glue",
        "HOME": "/h",
    }
    variables = environment.build_environment(layout, stack, caller)
    assert "AWS_PROFILE" not in variables
    assert "MLFLOW_TRACKING_TOKEN" not in variables
    assert "PYICEBERG_CATALOG__LEEWAY__TYPE" not in variables, (
        "the variables of a shell that is set up for AWS do not reach the stack"
    )
    assert variables["AIRFLOW__CORE__EXECUTOR"] == "leeway.executor.RestartableLocalExecutor"
    assert variables["HOME"] == "/h"


def test_all_addresses_are_loopback(layout, stack):
    variables = environment.build_environment(layout, stack, {})
    assert variables["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:12"
    assert variables["AWS_ENDPOINT_URL"] == "http://127.0.0.1:13"
    assert json.loads(variables["AIRFLOW_CONN_AWS_DEFAULT"])["extra"]["endpoint_url"] == "http://127.0.0.1:13"
    assert variables["LEEWAY_DOCS_URL"] == "http://127.0.0.1:14"
    assert variables["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert variables["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:11/execution/"


def test_waiting_threads_sleep(layout, stack):
    """Ten processes share the cores. With busy waiting, 120 rounds on two threads took 37 s, and 3 s without."""
    assert environment.build_environment(layout, stack, {"OMP_WAIT_POLICY": "active"})["OMP_WAIT_POLICY"] == "passive"


def test_requests_to_this_machine_use_no_proxy(layout, stack):
    variables = environment.build_environment(layout, stack, {"NO_PROXY": "inside", "HTTP_PROXY": "http://proxy"})
    assert variables["NO_PROXY"] == "inside,127.0.0.1,localhost"


def test_secrets_are_generated_once_in_files_that_only_the_owner_reads(layout, stack):
    commands.write_secrets(layout)
    files = [layout.airflow / "airflow.cfg", layout.airflow / "passwords.json"]
    before = [path.read_text() for path in files]
    commands.write_secrets(layout)
    assert [path.read_text() for path in files] == before
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    values = environment.build_environment(layout, stack, {}).values()
    keys = [line.split(" = ")[1] for line in before[0].splitlines() if " = " in line]
    assert len(keys) == 3
    assert not any(secret in value for secret in [*keys, commands.read_password(layout)] for value in values)
