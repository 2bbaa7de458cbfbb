"""Test the commands that the demo prints at its end."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stack.jobs import serving_hint
from stack.jobs.serving_hint import build_serving_hint
from stack.layout import Layout
from stack.services.record import Ports, Stack

ROW = """{"carrier": "O'Hare", "distance": 5}"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(home=tmp_path / "home", project=tmp_path)


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    ports = Ports(airflow=1, mlflow=2, drydock=3, docs=4)
    return Stack(id="any", project=tmp_path, started_at=datetime.now(UTC), ports=ports)


def test_the_row_is_a_shell_variable_and_the_addresses_are_those_of_make_up(
    layout: Layout, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_hint, "_read_row", lambda *_: ROW)
    hint = build_serving_hint(layout, stack, "flights", has_endpoint=True, has_lookups=True)
    (assignment,) = (line for line in hint.splitlines() if line.startswith("  row="))
    script = f'{assignment}\nprintf %s "$row"'
    assert subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout == ROW
    assert "MLFLOW_TRACKING_URI=http://127.0.0.1:5000\n" in hint
    assert "http://127.0.0.1:4566/endpoints/flights/invocations" in hint and "DAG flights_deploy" in hint
    assert "AWS_ENDPOINT_URL=http://127.0.0.1:4566" in hint and "-m pipelines materialize --model flights" in hint
    assert "materialize" not in build_serving_hint(layout, stack, "flights", has_endpoint=True, has_lookups=False)
    layout.home.mkdir()
    layout.keep_running_file.touch()
    hint = build_serving_hint(layout, stack, "other", has_endpoint=False, has_lookups=False)
    assert "MLFLOW_TRACKING_URI=http://127.0.0.1:2\n" in hint and "endpoint" not in hint, "it stays up; no such DAG"


def test_without_a_published_row_nothing_is_printed(layout: Layout, stack: Stack) -> None:
    assert build_serving_hint(layout, stack, "flights", has_endpoint=True, has_lookups=True) == ""
