"""Test the messages about steps: which results have a message, and what it says."""

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.log import mask_secret
from leeway.notifiers.message import MAX_LINE_CHARS, MAX_LINES, MAX_TITLE_CHARS, Message
from leeway.notifiers.step_messages import build_failure_message, build_step_message


def build(step: str, result: Any, backfill: bool = False) -> Message:
    """Build the message of a step's result, which must have one."""
    message = build_step_message(
        step, result, is_backfill=backfill, log_url="http://airflow/base/dags/d/runs/r/tasks/t?try_number=1"
    )
    assert message is not None
    return message


def test_drift_names_the_worst_columns_the_reasons_and_the_page(make_result):
    message = build("drift", make_result("drift"))
    assert message.title == "flights has drifted"
    assert message.facts["worst columns"] == "wind_speed, visib"
    assert message.facts["retraining as of"] == "2013-04-08"
    assert message.lines == ("wind_speed: psi 0.41 over 0.2", "label rate: 0.31 over 0.22")
    assert list(message.links) == ["Findings", "Model", "Log"]
    assert message.links["Model"] == "http://airflow/base/plugin/leeway/models/flights"


def test_a_training_requested_by_age_is_no_drift(make_result):
    overdue_reason = "the last training was as of 2013-02-01, 66 days before 2013-04-08; the next is due after 60 days"
    fields = {
        "outcome": "none",
        "reasons": ["nothing drifted"],
        "drifted_columns": [],
        "overdue_reason": overdue_reason,
    }
    message = build("drift", make_result("drift", **fields))
    assert message.title == "flights is trained again"
    assert message.lines == ("nothing drifted", overdue_reason)


def test_verdict_names_failed_and_undecided_checks_only(make_result):
    message = build("gate", make_result("gate"))
    assert message.title == "flights version 3 did not pass the gate"
    assert message.lines == ("auc is 0.61, but must be at least 0.65 with confidence", "2013-03-04: too few rows")
    assert message.facts["compared with"] == "2"
    assert message.links["Report"].endswith("/models/flights/3/report.html")


def test_verdict_that_needs_approval_says_where_to_answer(make_result):
    assert "Required Actions" in build("gate", make_result("gate", outcome="undecided", needs_approval=True)).lines[0]


def test_undecided_verdict_says_what_would_decide_and_what_to_do(make_result):
    steps = ["About 60 days of holdout would decide it.", "Nobody is asked, and the champion stays."]
    message = build("gate", make_result("gate", outcome="undecided", days_needed=60, next_steps=steps))
    assert message.title == "flights version 3 is undecided: too little data"
    assert list(message.lines[:2]) == steps
    assert message.facts["days of holdout that would decide"] == "60"
    assert not any("would decide" in name for name in build("gate", make_result("gate")).facts)


def test_passed_verdict_says_so(make_result):
    message = build(
        "gate", make_result("gate", outcome="passed", checks=[], reason="all 14 checks passed", champion="")
    )
    assert (message.lines, message.facts["compared with"]) == (("all 14 checks passed",), "no champion")


def test_promotion_and_rollback_name_both_versions_and_why(make_result, home: Path):
    message = build("promote", make_result("promote"))
    assert (message.title, message.facts["previous champion"]) == ("flights version 3 is champion", "2")
    assert message.links["Report"].endswith("/models/flights/3/report.html")
    message = build("rollback", make_result("rollback"))
    assert (message.title, message.facts["rolled back"]) == ("flights was rolled back to version 2", "3")
    assert message.lines == ("version 3 was rolled back: late flights are missed at EWR",)
    assert message.links["Report"].endswith("/models/flights/3/report.html")


@pytest.mark.parametrize(("until", "text"), [("2013-04-12", "2013-04-12"), (None, "a person acts, or new data arrive")])
def test_held_back_retraining_names_guard_reason_and_end(make_result, until, text):
    message = build("guard", make_result("guard", until=until))
    assert message.title == "flights: a retraining is held back"
    assert (message.facts["guard"], message.facts["until"]) == ("cooldown", text)
    assert message.lines == ("the last training was as of 2013-04-05", "wait")


def test_skew_names_the_endpoint_the_features_and_that_no_training_starts(make_result):
    message = build("skew", make_result("skew"))
    assert message.title == "flights: requests differ from the lake"
    assert (message.facts["version"], message.facts["endpoint"]) == ("2, 3", "flights")
    assert message.facts["rows of requests"] == "1,234"
    reason = "more than 1.00% of the rows differ in departures_hour (2.40%)"
    assert message.lines == (reason, "This is an error of serving: no training is started.")


@pytest.mark.parametrize(
    ("step", "values"),
    [
        ("skew", {"outcome": "ok"}),
        ("skew", {"outcome": "undecided"}),
        ("drift", {"outcome": "none", "retrain": False}),
        ("drift", {"outcome": "undecided", "retrain": False}),
        ("drift", {"retrain": False}),
        ("guard", {"outcome": "started"}),
        ("promote", {"changed": False}),
        ("rollback", {"changed": False}),
    ],
)
def test_result_without_news_has_no_message(make_result, step, values):
    assert build_step_message(step, make_result(step, **values), is_backfill=False, log_url="") is None


@pytest.mark.parametrize("step", ["", "ingest", "score"])
def test_other_steps_have_no_message(step):
    assert build_step_message(step, {"rows": 1}, is_backfill=False, log_url="") is None


def test_step_without_a_result_has_no_message():
    assert build_step_message("gate", {}, is_backfill=False, log_url="") is None


@pytest.mark.parametrize(
    ("step", "has_message"), [("drift", False), ("gate", False), ("guard", False), ("promote", True)]
)
def test_backfill_has_a_message_only_of_a_new_champion(make_result, home: Path, step, has_message):
    assert (build_step_message(step, make_result(step), is_backfill=True, log_url="") is not None) is has_message


def test_failure_names_dag_task_try_log_and_the_first_line_of_the_error():
    error = RuntimeError("\nlake is locked\nTraceback: ...")
    message = build_failure_message(
        "flights_train", "manual__1", "train", try_number=3, log_url="http://airflow/log", error=error
    )
    assert message.title == "flights_train: task train failed"
    assert message.facts == {"DAG": "flights_train", "run": "manual__1", "task": "train", "try": "3"}
    assert message.lines == ("RuntimeError: lake is locked",)
    assert message.links == {"Log": "http://airflow/log"}


def test_failure_without_an_error_says_so():
    message = build_failure_message("d", "r", "t", try_number=1, log_url="", error=None)
    assert (message.lines, message.links) == (("no error is known; see the log",), {})


def test_huge_text_is_cut_and_counted(make_result):
    message = build("drift", make_result("drift", model_name="m" * 9_000, reasons=["x" * 9_000] * 300))
    assert len(message.title) <= MAX_TITLE_CHARS
    assert max(len(line) for line in message.lines) <= MAX_LINE_CHARS
    assert (len(message.lines), message.lines[-1]) == (MAX_LINES + 1, f"and {300 - MAX_LINES} more")


def test_line_breaks_and_direction_marks_are_escaped():
    message = Message.create("a\r\nBcc: all@example.com\u202e\ud800", {"model": "b\x00\nc"})
    assert (message.title, message.facts["model"]) == (r"a\r\nBcc: all@example.com\u202e\ud800", r"b\x00\nc")


SECRETS = {"of a line": "the parrot knows the map", "of two lines": "dig where the\ntwo palms cross"}


@pytest.fixture(params=SECRETS)
def secret(request):
    """Register a secret with Airflow, as it does for each connection that a task reads; return it."""
    mask_secret(SECRETS[request.param])
    return SECRETS[request.param]


def test_message_of_an_error_masks_secrets(secret):
    error = RuntimeError(f"cannot log in with {secret} at sea")
    message = build_failure_message(
        "d", "r", "t", try_number=1, log_url=f"http://airflow/log?key={secret}", error=error
    )
    assert message.lines == ("RuntimeError: cannot log in with *** at sea",)
    assert message.links == {"Log": "http://airflow/log?key=***"}


def test_message_of_a_result_masks_secrets(make_result, secret):
    reasons = [f"psi of {secret} is 0.41", "x" * (MAX_LINE_CHARS - 10) + secret]
    message = build(
        "drift",
        make_result("drift", model_name=secret, drifted_columns=[secret], reasons=reasons, page=f"s3://{secret}"),
    )
    assert (message.title, message.facts["worst columns"]) == ("*** has drifted", "***")
    assert message.lines == ("psi of *** is 0.41", "x" * (MAX_LINE_CHARS - 10) + "***")
    assert message.links["Findings"] == "s3://***"


def test_deployment_names_the_endpoint_and_what_it_costs():
    result = {"model_name": "flights", "version": "3", "previous": "2", "endpoint": "flights", "changed": True}
    message = build("serving", {**result, "cost_usd_month": 1_167.9})
    assert message.title == "flights version 3 is deployed"
    assert message.facts == {
        "model": "flights", "version": "3", "endpoint": "flights", "served before": "2",
        "instances": "1,167.90 USD a month",
    }  # fmt: skip
    first = build("serving", {**result, "previous": "", "cost_usd_month": None})
    assert (first.facts["served before"], "instances" in first.facts) == ("none", False)
    unchanged = {**result, "changed": False}
    assert build_step_message("serving", unchanged, is_backfill=False, log_url="") is None


def test_shadow_has_a_message_only_if_its_requests_decide_nothing():
    result = {
        "model_name": "flights", "version": "3", "champion": "2", "endpoint": "flights", "outcome": "undecided",
        "reason": "requests are 7, but must be at least 500; errors: too few", "requests": 7, "page": "http://docs/s.html",
    }  # fmt: skip
    message = build("shadow", result)
    assert message.title == "flights version 3 was a shadow, but its requests decide nothing"
    assert message.facts["compared"] == "7 requests"
    assert build_step_message("shadow", {**result, "outcome": "passed"}, is_backfill=False, log_url="") is None
    assert build_step_message("shadow", {"outcome": "skipped"}, is_backfill=False, log_url="") is None


def test_notices_about_costs_have_a_line_each_and_no_notice_has_no_message(make_result):
    message = build("showback", make_result("showback"))
    assert message.title == "flights, unallocated: a budget reached a threshold, the costs are unusually high"
    assert message.facts["month"] == "2026-11: 1,234.50 USD so far"
    assert message.lines[0] == "flights has spent 85.00 USD, 85 % of its 100.00 USD" and len(message.lines) == 2
    assert list(message.links) == ["Log"]
    nothing = make_result("showback", notices=[])
    assert build_step_message("showback", nothing, is_backfill=False, log_url="x") is None
