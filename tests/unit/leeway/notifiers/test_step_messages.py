"""What is said of each ending, and of which nothing is."""

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.log import mask_secret
from leeway.notifiers.message import LINE, LINES, TITLE, Message
from leeway.notifiers.step_messages import build_failure_message, build_step_message


def told(step: str, result: Any, backfill: bool = False) -> Message:
    message = build_step_message(step, result, backfill=backfill, log="http://airflow/log")
    assert message is not None
    return message


def test_drift_names_the_worst_columns_the_reasons_and_the_page(result):
    message = told("drift", result("drift"))
    assert message.title == "flights has drifted"
    assert message.facts["worst columns"] == "wind_speed, visib"
    assert message.facts["retraining as of"] == "2013-04-08"
    assert message.lines == ("wind_speed: psi 0.41 over 0.2", "label rate: 0.31 over 0.22")
    assert list(message.links) == ["Findings", "Log"]


def test_verdict_names_what_failed_and_what_is_open_not_what_passed(result):
    message = told("gate", result("gate"))
    assert message.title == "flights version 3 did not pass the gate"
    assert message.lines == ("auc is 0.61, but must be at least 0.65 with confidence", "2013-03-04: too few rows")
    assert message.facts["compared with"] == "2"
    assert message.links["Report"].endswith("/models/flights/3/report.html")


def test_verdict_that_asks_says_where_to_answer(result):
    assert "Required Actions" in told("gate", result("gate", outcome="undecided", asks=True)).lines[0]


def test_verdict_that_passed_says_so(result):
    message = told("gate", result("gate", outcome="passed", checks=[], reason="all 14 checks passed", champion=""))
    assert (message.lines, message.facts["compared with"]) == (("all 14 checks passed",), "no champion")


def test_promotion_and_rollback_name_both_versions_and_why(result, home: Path):
    message = told("promote", result("promote"))
    assert (message.title, message.facts["previous champion"]) == ("flights version 3 is champion", "2")
    assert message.links["Report"].endswith("/models/flights/3/report.html")
    message = told("rollback", result("rollback"))
    assert (message.title, message.facts["rolled back"]) == ("flights was rolled back to version 2", "3")
    assert message.lines == ("version 3 was rolled back: late flights are missed at EWR",)
    assert message.links["Report"].endswith("/models/flights/3/report.html")


@pytest.mark.parametrize(("until", "words"), [("2013-04-12", "2013-04-12"), (None, "a person or new data change it")])
def test_retraining_that_is_held_back_says_by_what_why_and_until_when(result, until, words):
    message = told("guard", result("guard", until=until))
    assert message.title == "flights: a retraining is held back"
    assert (message.facts["guard"], message.facts["until"]) == ("cooldown", words)
    assert message.lines == ("the last training was as of 2013-04-05", "wait")


@pytest.mark.parametrize(
    ("step", "values"),
    [
        ("drift", {"outcome": "none", "retrain": False}),
        ("drift", {"outcome": "undecided", "retrain": False}),
        ("drift", {"retrain": False}),
        ("guard", {"outcome": "started"}),
        ("promote", {"changed": False}),
        ("rollback", {"changed": False}),
    ],
)
def test_no_news_is_not_told(result, step, values):
    assert build_step_message(step, result(step, **values), backfill=False, log="") is None


@pytest.mark.parametrize("step", ["", "ingest", "score"])
def test_other_steps_are_no_news(step):
    assert build_step_message(step, {"rows": 1}, backfill=False, log="") is None


def test_step_without_a_result_is_no_news():
    assert build_step_message("gate", {}, backfill=False, log="") is None


@pytest.mark.parametrize(("step", "news"), [("drift", False), ("gate", False), ("guard", False), ("promote", True)])
def test_backfill_tells_only_what_moved_the_champion(result, home: Path, step, news):
    assert (build_step_message(step, result(step), backfill=True, log="") is not None) is news


def test_failure_names_dag_task_try_log_and_the_first_line_of_the_error():
    error = RuntimeError("\nlake is locked\nTraceback: ...")
    message = build_failure_message(
        "flights_train", "manual__1", "train", try_number=3, log="http://airflow/log", error=error
    )
    assert message.title == "flights_train: task train failed"
    assert message.facts == {"DAG": "flights_train", "run": "manual__1", "task": "train", "try": "3"}
    assert message.lines == ("RuntimeError: lake is locked",)
    assert message.links == {"Log": "http://airflow/log"}


def test_failure_without_an_error_says_so():
    message = build_failure_message("d", "r", "t", try_number=1, log="", error=None)
    assert (message.lines, message.links) == (("no error is known; see the log",), {})


def test_huge_text_is_cut_and_counted(result):
    message = told("drift", result("drift", model_name="m" * 9_000, reasons=["x" * 9_000] * 300))
    assert len(message.title) <= TITLE
    assert max(len(line) for line in message.lines) <= LINE
    assert (len(message.lines), message.lines[-1]) == (LINES + 1, f"and {300 - LINES} more")


def test_line_breaks_and_marks_that_turn_text_around_are_gone():
    message = Message.create("a\r\nBcc: all@example.com\u202e\ud800", {"model": "b\x00\nc"})
    assert (message.title, message.facts["model"]) == ("a Bcc: all@example.com", "b c")


SECRETS = {"of a line": "the parrot knows the map", "of two lines": "dig where the\ntwo palms cross"}


@pytest.fixture(params=SECRETS)
def secret(request):
    """A secret that Airflow knows of, as of each connection that a task has read."""
    mask_secret(SECRETS[request.param])
    return SECRETS[request.param]


def test_error_is_told_without_its_secrets(secret):
    error = RuntimeError(f"cannot log in with {secret} at sea")
    message = build_failure_message("d", "r", "t", try_number=1, log=f"http://airflow/log?key={secret}", error=error)
    assert message.lines == ("RuntimeError: cannot log in with *** at sea",)
    assert message.links == {"Log": "http://airflow/log?key=***"}


def test_result_is_told_without_its_secrets(result, secret):
    reasons = [f"psi of {secret} is 0.41", "x" * (LINE - 10) + secret]
    message = told("drift", result("drift", model_name=secret, worst=[secret], reasons=reasons, page=f"s3://{secret}"))
    assert (message.title, message.facts["worst columns"]) == ("*** has drifted", "***")
    assert message.lines == ("psi of *** is 0.41", "x" * (LINE - 10) + "***")
    assert message.links["Findings"] == "s3://***"
