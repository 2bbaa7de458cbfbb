"""What is told to people: errors, exit codes, tables, requests."""

import io
import pickle
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from stack import cli, display
from stack.airflow import dag_parsing
from stack.airflow.dag_parsing import wait_until_parsed
from stack.airflow.failures import exit_code
from stack.errors import RequestError, StackError, TaskFailedError, UnavailableError
from stack.jobs.request import Request
from stack.jobs.results_table import table
from stack.jobs.training_runs import Row

BORN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["the step ended with exit code 2"], 2),
        (["exited with code 75"], 75),
        (["Exit status: 75", "something after"], 75),
        (["exit code 2", "tried again", "exit code 75"], 75),
        (["exit code 1"], 1),
        (["exit code 250"], 1),
        (["AirflowFailException: validate: the day is empty", "::endgroup"], 2),
        (["AirflowException: ingest: MLflow does not answer"], 75),
        (["AirflowException: ingest ended with exit code 1 and said nothing"], 1),
        (["RuntimeError: a bug"], 1),
        ([], 1),
    ],
)
def test_exit_code_is_the_last_that_the_log_tells(lines, code):
    assert exit_code(lines) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StackError("a", "b"), 1),
        (RequestError("a", "b"), 2),
        (UnavailableError("a", "b"), 75),
        (TaskFailedError("a", "b", 2), 2),
        (TaskFailedError("a", "b"), 1),
    ],
)
def test_error_survives_pickling_and_has_its_code(error, code):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.details, again.exit_code) == (type(error), "a", "b", code)


def test_wrong_request_is_one_line_and_exit_2(tmp_path, monkeypatch):
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    monkeypatch.delenv("LEEWAY_DEBUG", raising=False)
    answer = CliRunner().invoke(cli.app, ["up"])
    assert answer.exit_code == 2
    assert answer.stderr.startswith("error: ")
    assert answer.stderr.count("\n") == 1


def test_traceback_is_shown_where_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    monkeypatch.setenv("LEEWAY_DEBUG", "1")
    assert isinstance(CliRunner().invoke(cli.app, ["up"]).exception, RequestError)


def test_nothing_running_is_no_error_for_down(tmp_path, monkeypatch):
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    monkeypatch.delenv("LEEWAY_HOME", raising=False)
    assert CliRunner().invoke(cli.app, ["down"]).output == "Nothing was running.\n"
    assert CliRunner().invoke(cli.app, ["status"]).exit_code == 75
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--from", "2013-02-01", "--to", "2013-01-01"], "is after"),
        (["--as-of", "2013-03-02"], "not the first of a month"),
    ],
)
def test_request_that_makes_no_sense_is_refused(arguments, told):
    answer = CliRunner().invoke(cli.app, ["demo", *arguments])
    assert answer.exit_code == 2
    assert told in answer.stderr


def test_moments_are_put_in_order():
    request = Request.checked(date(2013, 1, 1), date(2013, 1, 3), [date(2013, 4, 1), date(2013, 3, 1)] * 2, False)
    assert request.as_of == [date(2013, 3, 1), date(2013, 4, 1)]
    assert len(request.days) == 3


@pytest.mark.parametrize(
    ("start", "end", "months"),
    [
        ((2013, 1, 20), (2013, 1, 30), [1]),
        ((2013, 1, 20), (2013, 1, 31), [1, 2]),  # a late flight's hour is the next day in UTC
        ((2013, 11, 1), (2013, 12, 31), [11, 12]),  # and after the year nothing comes
    ],
)
def test_months_are_those_whose_weather_the_flights_had(start, end, months):
    request = Request.checked(date(*start), date(*end), [], False)
    assert request.months == [date(2013, month, 1) for month in months]


def test_table_tells_what_was_trained_and_what_was_not():
    row = Row(
        as_of=date(2013, 3, 1),
        version="2",
        aliases=["champion"],
        window="2013-01-02..2013-02-14 | 2013-02-16..2013-02-27",
        rows_train="39000",
        rows_holdout="12000",
        data_version="0123456789abcdef",
        training_job="leeway-1",
        verdict="passed",
        metrics={"holdout_auc": 0.69123},
    )
    out = Console(width=150, file=io.StringIO())
    out.print(table([row, Row(as_of=date(2013, 4, 1))]))
    text = out.file.getvalue()  # type: ignore[attr-defined]
    for told in ("0.6912", "2 champion", "39,000", "leeway-1", "passed", "no model"):
        assert told in text


def test_progress_off_a_terminal_has_no_control_codes(capsys):
    with display.progress("working") as bar:
        bar(0, 2, "a")
        bar(2, 2, "b")
    assert capsys.readouterr().out == "working: 0/2 a\nworking: 2/2 b\n"


class FakeAirflow:
    def __init__(self, dag: dict[str, Any] | None, errors: list[dict[str, Any]]) -> None:
        self.found, self.errors, self.unpaused = dag, errors, False

    def dag(self, dag_id: str) -> dict[str, Any] | None:
        return self.found

    def import_errors(self, since: datetime) -> list[dict[str, Any]]:
        return self.errors

    def unpause(self, dag_id: str) -> None:
        self.unpaused = True


def wait(api: FakeAirflow) -> None:
    wait_until_parsed(api, ["flights_ingest"], BORN, lambda: None)  # type: ignore[arg-type]


def test_dag_that_was_paused_is_unpaused():
    api = FakeAirflow({"last_parsed_time": BORN.isoformat(), "is_paused": True}, [])
    wait(api)
    assert api.unpaused


def test_dag_that_cannot_be_imported_is_one_line():
    api = FakeAirflow(None, [{"filename": "flights.py", "stack_trace": "Traceback\nNameError: no x\n"}])
    with pytest.raises(RequestError, match=r"^flights.py cannot be imported: NameError: no x$"):
        wait(api)


@pytest.mark.parametrize("dag", [None, {"last_parsed_time": "2025-12-31T00:00:00Z", "is_paused": False}])
def test_dag_that_was_not_read_in_this_life_does_not_count(dag, monkeypatch):
    monkeypatch.setattr(dag_parsing, "PARSE_S", 0)
    monkeypatch.setattr(dag_parsing, "_POLL_S", 0)
    with pytest.raises(RequestError, match="has the DAG flights_ingest"):
        wait(FakeAirflow(dag, []))


def test_layout_follows_the_environment(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "elsewhere"))
    assert cli.Layout.from_environment().home == tmp_path / "elsewhere"
