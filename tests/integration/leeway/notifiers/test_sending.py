"""Test that notifications reach a real mail server and a real HTTP receiver, and that a lost one fails no task."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from leeway.notifiers import delivery
from leeway.notifiers.lifecycle import LifecycleNotifier, build_lifecycle_callbacks
from leeway.notifiers.message import MAX_LINES

CANARY = "tweety-sings-of-secrets"
"""The password of each connection."""
HOSTILE = "<script>x</script> <!channel> {{ ti.task_id }} \r\nBcc: all@example.com"


def build_context(step: str = "promote", backfill: bool = False, error: Exception | None = None, **values: Any) -> Any:
    """Return Airflow's context of a task that has ended."""
    result = {"model_name": "flights", "version": "3", "previous": "2", "changed": True, "reason": "it passed"}
    ti = SimpleNamespace(
        task_id=step, dag_id="flights_train", run_id="manual__1", try_number=3, map_index=-1, log_url="http://air/log",
        xcom_pull=lambda task_ids, map_indexes: {**result, **values},
    )  # fmt: skip
    run = SimpleNamespace(run_type="backfill" if backfill else "manual")
    return {"ti": ti, "task": SimpleNamespace(step=step), "dag_run": run, "dag": None, "exception": error}


@pytest.fixture
def read_log(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return the function that reads the part of Airflow's log which is new since its last call."""
    return lambda: capsys.readouterr().out


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Return a port on which no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield probe.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Return a port whose server accepts connections and never answers. It closes them after the test."""
    before = threading.enumerate()
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]
    for thread in set(threading.enumerate()) - set(before):
        thread.join()


def test_promotion_is_sent_by_mail_and_to_slack(mail_server, slack_receiver, read_log):
    LifecycleNotifier()(build_context())
    (mail,) = mail_server.mails
    log = read_log()
    assert mail["Subject"] == "[Leeway] flights version 3 is champion"
    assert (mail["From"], mail["To"]) == ("leeway@example.com", "crew@example.com")
    assert "previous champion: 2" in mail.get_body(("plain",)).get_content()
    assert "flights version 3 is champion</h1>" in mail.get_body(("html",)).get_content()
    (message,) = slack_receiver.posts
    assert message["text"] == "flights version 3 is champion"
    assert message["blocks"][0]["text"]["text"] == "flights version 3 is champion"
    assert "notified crew@example.com: flights version 3 is champion" in log
    assert "notified Slack" in log


def test_failure_is_sent_with_the_first_line_of_its_error(mail_server):
    build_lifecycle_callbacks()["on_failure_callback"](
        build_context("", error=ValueError("the lake is locked\nand more"))
    )
    text = mail_server.mails[0].get_body(("plain",)).get_content()
    assert "- ValueError: the lake is locked" in text.splitlines()
    assert "and more" not in text
    assert "Log: http://air/log" in text


@pytest.mark.parametrize(("outcome", "title"), [("held_back", "held back"), ("started", "task guard failed")])
def test_message_about_a_failed_guard_names_its_outcome(mail_server, outcome, title):
    result = {"outcome": outcome, "guard": "breaker", "until": None, "as_of": "2013-04-08"}
    build_lifecycle_callbacks()["on_failure_callback"](build_context("guard", error=ValueError("no"), **result))
    assert title in mail_server.mails[0]["Subject"]


def test_failure_of_a_backfill_is_not_sent(mail_server, slack_receiver):
    build_lifecycle_callbacks()["on_failure_callback"](build_context("", backfill=True, error=ValueError("no")))
    assert mail_server.mails == slack_receiver.posts == []


def test_nothing_is_sent_or_logged_without_connections(read_log):
    LifecycleNotifier()(build_context())
    assert read_log() == ""


def test_result_without_an_event_is_not_sent(mail_server, slack_receiver, read_log):
    LifecycleNotifier()(build_context("ingest"))
    LifecycleNotifier()(build_context("promote", changed=False))
    assert mail_server.mails == slack_receiver.posts == []
    assert read_log() == ""


def test_connection_without_recipients_is_logged(mail_server, set_connections, read_log):
    set_connections(smtp_default=mail_server.build_connection(to=""))
    LifecycleNotifier()(build_context())
    assert mail_server.mails == []
    assert "notified nobody, because smtp_default has no `to` in its extra" in read_log()


def test_log_names_the_recipients_that_the_server_refused(mail_server, set_connections, read_log):
    set_connections(smtp_default=mail_server.build_connection(to="crew@example.com, nobody@example.com"))
    LifecycleNotifier()(build_context())
    assert len(mail_server.mails) == 1
    assert "notified crew@example.com, nobody@example.com (refused): flights" in read_log()


def test_connection_can_have_another_name(mail_server, set_connections):
    set_connections(crew_mail=mail_server.build_connection(to="other@example.com"))
    build_lifecycle_callbacks(mail_conn_id="crew_mail")["on_success_callback"](build_context())
    assert [mail["To"] for mail in mail_server.mails] == ["other@example.com"]


def test_slack_gets_the_message_when_the_mail_server_is_down(
    mail_server, slack_receiver, set_connections, closed_port, read_log
):
    set_connections(
        smtp_default=mail_server.build_connection().replace(f'"port": {mail_server.port}', f'"port": {closed_port}')
    )
    LifecycleNotifier()(build_context())
    assert len(slack_receiver.posts) == 1
    assert "not sent by smtp_default (ConnectionRefusedError" in read_log()


def test_mail_is_sent_when_slack_is_down(mail_server, slack_receiver, set_connections, closed_port, read_log):
    set_connections(
        slack_default=slack_receiver.build_connection().replace(f":{slack_receiver.port}/", f":{closed_port}/")
    )
    LifecycleNotifier()(build_context())
    assert len(mail_server.mails) == 1
    assert "not sent by slack_default (" in read_log()


def test_sending_does_not_wait_for_a_silent_server(
    mail_server, slack_receiver, set_connections, silent_port, read_log, monkeypatch, until
):
    monkeypatch.setattr(delivery, "SEND_TIMEOUT_S", 1.0)
    connection = mail_server.build_connection(timeout=100_000).replace(
        f'"port": {mail_server.port}', f'"port": {silent_port}'
    )
    set_connections(smtp_default=connection)
    LifecycleNotifier()(build_context())
    assert "not sent by smtp_default (no answer in 1 s): flights version 3 is champion" in read_log()
    until(lambda: slack_receiver.posts)  # the machine may be slow


def test_status_500_of_slack_is_logged(slack_receiver, read_log):
    slack_receiver.status = 500
    LifecycleNotifier()(build_context())
    log = read_log()
    assert "not sent by slack_default (AirflowException" in log
    assert "no such hook: /services/***', Status Code: 500" in log
    assert CANARY not in log


def test_log_hides_a_webhook_url_that_is_the_password(slack_receiver, set_connections, read_log):
    slack_receiver.status = 500
    url = f"http://127.0.0.1:{slack_receiver.port}/services/T0/B0/{CANARY}"
    set_connections(slack_default=json.dumps({"conn_type": "slackwebhook", "password": url}))
    LifecycleNotifier()(build_context())
    log = read_log()
    assert "no such hook: ***" in log
    assert CANARY not in log


def test_wrong_password_is_logged(mail_server, set_connections, read_log):
    set_connections(smtp_default=mail_server.build_connection().replace("tweety", "sylvester"))
    LifecycleNotifier()(build_context())
    log = read_log()
    assert mail_server.mails == []
    assert "not sent by smtp_default (SMTPAuthenticationError" in log
    assert "sylvester" not in log


def test_result_without_the_expected_keys_raises_nothing(mail_server, read_log):
    LifecycleNotifier()(build_context("gate"))
    assert mail_server.mails == []
    assert "no notification was sent: KeyError" in read_log()


def test_markup_in_values_is_escaped(mail_server, slack_receiver):
    LifecycleNotifier()(build_context(model_name=HOSTILE, reason=HOSTILE * 9_000))
    (mail,) = mail_server.mails
    assert mail["Bcc"] is None
    assert "<script>" not in mail.get_body(("html",)).get_content()
    assert "{{ ti.task_id }}" in mail.get_body(("plain",)).get_content()
    texts = [block["text"]["text"] for block in slack_receiver.posts[0]["blocks"] if block["text"]["type"] == "mrkdwn"]
    assert "<!channel>" not in str(texts) + slack_receiver.posts[0]["text"]


def test_long_list_ends_with_the_number_of_omitted_lines(mail_server):
    checks = [{"outcome": "failed", "reason": f"check {n}"} for n in range(200)]
    verdict = {"outcome": "failed", "checks": checks, "needs_approval": False, "champion": "", "report": ""}
    LifecycleNotifier()(build_context("gate", **verdict, next_steps=[], days_needed=None))
    assert f"and {200 - MAX_LINES} more" in mail_server.mails[0].get_body(("plain",)).get_content()
