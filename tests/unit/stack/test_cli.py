"""Test the command line: errors in one line, exit codes, and commands that have nothing to do."""

import pytest
from typer.testing import CliRunner

from stack import cli
from stack.errors import RequestError


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
