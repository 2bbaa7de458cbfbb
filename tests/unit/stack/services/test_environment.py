"""What services are started with."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stack.errors import RequestError, UnavailableError
from stack.layout import Layout
from stack.services import commands, environment
from stack.services.record import Ports, Stack


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "dags").mkdir()
    found = Layout(home=tmp_path / "home", project=tmp_path)
    found.prepare()
    return found


@pytest.fixture
def stack(layout: Layout) -> Stack:
    ports = Ports(airflow=11, mlflow=12, drydock=13, docs=14)
    return Stack(id="one", project=layout.project, started_at=datetime.now(UTC), ports=ports)


def test_settings_of_another_installation_are_not_taken_over(layout, stack):
    ambient = {
        "AWS_PROFILE": "work",
        "AIRFLOW__CORE__EXECUTOR": "Other",
        "MLFLOW_TRACKING_TOKEN": "x",
        "PYICEBERG_CATALOG__LEEWAY__TYPE": "glue",
        "HOME": "/h",
    }
    found = environment.build(layout, stack, ambient)
    assert "AWS_PROFILE" not in found
    assert "MLFLOW_TRACKING_TOKEN" not in found
    assert "PYICEBERG_CATALOG__LEEWAY__TYPE" not in found, "a shell that is set up for AWS: docs/how-to/aws.md"
    assert found["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert found["HOME"] == "/h"


def test_every_address_is_loopback(layout, stack):
    found = environment.build(layout, stack, {})
    assert found["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:12"
    assert found["AWS_ENDPOINT_URL"] == "http://127.0.0.1:13"
    assert json.loads(found["AIRFLOW_CONN_AWS_DEFAULT"])["extra"]["endpoint_url"] == "http://127.0.0.1:13"
    assert found["LEEWAY_DOCS_URL"] == "http://127.0.0.1:14"
    assert found["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert found["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:11/execution/"


def test_threads_that_wait_for_one_another_sleep(layout, stack):
    """Ten processes share the cores: 120 rounds on two threads took 37 s beside others with loops, and 3 s without."""
    assert environment.build(layout, stack, {"OMP_WAIT_POLICY": "active"})["OMP_WAIT_POLICY"] == "passive"


def test_proxy_is_never_asked_for_this_machine(layout, stack):
    found = environment.build(layout, stack, {"NO_PROXY": "inside", "HTTP_PROXY": "http://proxy"})
    assert found["NO_PROXY"] == "inside,127.0.0.1,localhost"


def test_secrets_are_in_files_of_the_owner_only_and_made_once(layout, stack):
    commands.write_secrets(layout)
    files = [layout.airflow / "airflow.cfg", layout.airflow / "passwords.json"]
    before = [path.read_text() for path in files]
    commands.write_secrets(layout)
    assert [path.read_text() for path in files] == before
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    values = environment.build(layout, stack, {}).values()
    keys = [line.split(" = ")[1] for line in before[0].splitlines() if " = " in line]
    assert len(keys) == 3
    assert not any(secret in value for secret in [*keys, commands.password(layout)] for value in values)


def test_project_without_dags_is_refused(tmp_path):
    with pytest.raises(RequestError, match="has no folder dags/"):
        Layout(home=tmp_path / "home", project=tmp_path).prepare()
    assert not (tmp_path / "home").exists()


def test_full_disk_is_refused(layout, monkeypatch):
    monkeypatch.setattr("stack.layout.MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(UnavailableError, match="MiB are free"):
        layout.prepare()


def test_home_that_cannot_be_written_is_refused(layout, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="Cannot write"):
        Layout(home=tmp_path / "file" / "home", project=tmp_path).prepare()
