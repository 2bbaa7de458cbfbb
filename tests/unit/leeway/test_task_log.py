"""Test that the task's log shows an operator's own error on one line, and a bug with its frames."""

from collections.abc import Callable
from typing import Any

import pytest
import structlog
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway import task_log
from leeway.hooks.sagemaker.request_checks import parse_count
from leeway.hooks.step.hook import StepHook

from pipelines.errors import DataError


def raise_own_error() -> None:
    """Call code of an operator that raises an error."""
    parse_count("volume_gb", "many")


def make_failing_function(error: Exception) -> Callable[[], None]:
    """Return a function that raises the error."""

    def raise_error() -> None:
        raise error

    return raise_error


def log_error(call: Callable[[], None]) -> dict[str, Any]:
    """Call the function as Airflow's task runner does, and return the processed line about its error."""
    try:
        call()
    except Exception:
        return task_log.drop_frames(None, "exception", {"event": "Task failed with exception", "exc_info": True})
    raise AssertionError("no error was raised")


def test_an_error_of_an_operator_is_one_line() -> None:
    line = log_error(raise_own_error)
    assert line == {"event": "AirflowFailException: volume_gb is not a whole number: 'many'."}


def test_an_error_of_the_light_part_of_pipelines_is_one_line() -> None:
    assert log_error(make_failing_function(DataError("no.", "Do it."))) == {"event": "DataError: no. Do it."}


@pytest.mark.parametrize("error", [KeyError("x"), AirflowException("of another operator"), AirflowFailException("x")])
def test_any_other_error_keeps_its_frames(error: Exception) -> None:
    """This is the negative control."""
    assert log_error(make_failing_function(error)) == {"event": "Task failed with exception", "exc_info": True}


def test_a_line_without_an_error_is_unchanged() -> None:
    assert task_log.drop_frames(None, "info", {"event": "x"}) == {"event": "x"}


def test_the_listener_changes_existing_loggers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    processors: list[Any] = [*structlog.get_config()["processors"]]
    monkeypatch.setattr(structlog, "get_config", lambda: {"processors": processors})
    count_before = len(processors)
    for _ in range(2):
        task_log.on_task_instance_running(None, None)
    assert processors[0] is task_log.drop_frames
    assert len(processors) == count_before + 1


def test_a_wrong_variable_of_the_worker_fails_the_task_at_once(
    monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_WORKSPACE_DAYS", "abc")
    fresh_settings()
    with pytest.raises(AirflowFailException, match=r"^LEEWAY_WORKSPACE_DAYS: .* \(got 'abc'\)"):
        StepHook(structlog.get_logger())
