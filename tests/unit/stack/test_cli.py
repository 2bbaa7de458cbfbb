"""Test the command line: errors in one line, exit codes, and commands that have nothing to do."""

import webbrowser

import pytest
from typer.testing import CliRunner

from stack import cli
from stack.errors import RequestError
from stack.services.record import Stack


@pytest.fixture(autouse=True)
def _empty_project(tmp_path, monkeypatch):
    """A project that has no dags folder, which `up` refuses."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    monkeypatch.delenv("LEEWAY_HOME", raising=False)
    monkeypatch.delenv("LEEWAY_DEBUG", raising=False)


def test_wrong_request_prints_one_line_and_exits_with_2():
    result = CliRunner().invoke(cli.app, ["up"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_debug_variable_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("LEEWAY_DEBUG", "1")
    assert isinstance(CliRunner().invoke(cli.app, ["up"]).exception, RequestError)


def test_down_succeeds_where_nothing_runs(tmp_path):
    assert CliRunner().invoke(cli.app, ["down"]).output == "Nothing was running.\n"
    assert CliRunner().invoke(cli.app, ["services"]).exit_code == 75
    assert list(tmp_path.iterdir()) == []


def test_open_shows_the_page_of_a_model(tmp_path, monkeypatch):
    addresses = []
    ports = {"airflow": 8081, "mlflow": 1, "drydock": 2, "docs": 3}
    stack = Stack(id="a", project=tmp_path, started_at="2026-11-27T09:00:00Z", ports=ports)
    monkeypatch.setattr(cli, "find_running_stack", lambda _: stack)
    monkeypatch.setattr(cli, "read_password", lambda _: "secret")
    monkeypatch.setattr(webbrowser, "open", addresses.append)  # it returns None: there is no browser
    result = CliRunner().invoke(cli.app, ["open", "late flights"])
    assert addresses == ["http://127.0.0.1:8081/plugin/leeway/models/late%20flights"]
    assert (result.exit_code, "open this address yourself" in result.output) == (0, True)
    CliRunner().invoke(cli.app, ["open"])
    assert addresses[1] == "http://127.0.0.1:8081/plugin/leeway/"


def test_open_needs_a_stack():
    result = CliRunner().invoke(cli.app, ["open"])
    assert (result.exit_code, result.stderr.count("\n")) == (75, 1)
    assert "error: The stack is not running; `make up` starts it." in result.stderr
