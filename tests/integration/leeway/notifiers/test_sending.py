"""What is told arrives at a real mail server and a real HTTP receiver; what cannot be told fails nothing."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from leeway.notifiers import delivery
from leeway.notifiers.lifecycle import LifecycleNotifier, lifecycle_callbacks
from leeway.notifiers.message import LINES

CANARY = "tweety-sings-of-secrets"
"""The password of each connection."""
HOSTILE = "<script>x</script> <!channel> {{ ti.task_id }} \r\nBcc: all@example.com"


def ended(step: str = "promote", backfill: bool = False, error: Exception | None = None, **values: Any) -> Any:
    """Airflow's context of a task that ended."""
    result = {"model_name": "flights", "version": "3", "previous": "2", "changed": True, "reason": "it passed"}
    ti = SimpleNamespace(
        task_id=step, dag_id="flights_train", run_id="manual__1", try_number=3, map_index=-1, log_url="http://air/log",
        xcom_pull=lambda task_ids, map_indexes: {**result, **values},
    )  # fmt: skip
    run = SimpleNamespace(run_type="backfill" if backfill else "manual")
    return {"ti": ti, "task": SimpleNamespace(step=step), "dag_run": run, "dag": None, "exception": error}


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What Airflow's log has since it was last asked."""
    return lambda: capsys.readouterr().out


@pytest.fixture
def shut() -> Iterator[int]:
    """A port where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where somebody takes calls, and says nothing; who waits for a word is told at the end that none comes."""
    before = threading.enumerate()
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held.getsockname()[1]
    for thread in set(threading.enumerate()) - set(before):
        thread.join()


def test_promotion_is_told_by_mail_and_in_slack(post, channel, log):
    LifecycleNotifier()(ended())
    (mail,) = post.mails
    said = log()
    assert mail["Subject"] == "[Leeway] flights version 3 is champion"
    assert (mail["From"], mail["To"]) == ("leeway@example.com", "crew@example.com")
    assert "previous champion: 2" in mail.get_body(("plain",)).get_content()
    assert "flights version 3 is champion</h1>" in mail.get_body(("html",)).get_content()
    (posted,) = channel.posts
    assert posted["text"] == "flights version 3 is champion"
    assert posted["blocks"][0]["text"]["text"] == "flights version 3 is champion"
    assert "notified crew@example.com: flights version 3 is champion" in said
    assert "notified Slack" in said


def test_failure_is_told_with_its_first_line(post):
    lifecycle_callbacks()["on_failure_callback"](ended("", error=ValueError("the lake is locked\nand more")))
    text = post.mails[0].get_body(("plain",)).get_content()
    assert "- ValueError: the lake is locked" in text.splitlines()
    assert "and more" not in text
    assert "Log: http://air/log" in text


@pytest.mark.parametrize(("outcome", "title"), [("held_back", "held back"), ("started", "task guard failed")])
def test_guard_that_fails_for_a_person_to_look_tells_its_answer(post, outcome, title):
    answer = {"outcome": outcome, "guard": "breaker", "until": None, "as_of": "2013-04-08"}
    lifecycle_callbacks()["on_failure_callback"](ended("guard", error=ValueError("no"), **answer))
    assert title in post.mails[0]["Subject"]


def test_failure_of_a_backfill_is_not_told(post, channel):
    lifecycle_callbacks()["on_failure_callback"](ended("", backfill=True, error=ValueError("no")))
    assert post.mails == channel.posts == []


def test_nothing_is_sent_and_nothing_said_without_connections(log):
    LifecycleNotifier()(ended())
    assert log() == ""


def test_no_news_is_not_sent(post, channel, log):
    LifecycleNotifier()(ended("ingest"))
    LifecycleNotifier()(ended("promote", changed=False))
    assert post.mails == channel.posts == []
    assert log() == ""


def test_connection_without_anybody_to_tell_says_so(post, connect, log):
    connect(smtp_default=post.connection(to=""))
    LifecycleNotifier()(ended())
    assert post.mails == []
    assert "notified nobody, smtp_default has no `to` in its extra" in log()


def test_only_those_are_told_whom_the_server_took(post, connect, log):
    connect(smtp_default=post.connection(to="crew@example.com, nobody@example.com"))
    LifecycleNotifier()(ended())
    assert len(post.mails) == 1
    assert "notified crew@example.com, nobody@example.com (refused): flights" in log()


def test_connections_can_have_other_names(post, connect):
    connect(crew_mail=post.connection(to="other@example.com"))
    lifecycle_callbacks(mail_conn_id="crew_mail")["on_success_callback"](ended())
    assert [mail["To"] for mail in post.mails] == ["other@example.com"]


def test_mail_server_that_is_away_does_not_keep_slack_from_being_told(post, channel, connect, shut, log):
    connect(smtp_default=post.connection().replace(f'"port": {post.port}', f'"port": {shut}'))
    LifecycleNotifier()(ended())
    assert len(channel.posts) == 1
    assert "not sent by smtp_default (ConnectionRefusedError" in log()


def test_slack_that_is_away_does_not_keep_the_mail_from_being_sent(post, channel, connect, shut, log):
    connect(slack_default=channel.connection().replace(f":{channel.port}/", f":{shut}/"))
    LifecycleNotifier()(ended())
    assert len(post.mails) == 1
    assert "not sent by slack_default (" in log()


def test_server_that_says_nothing_is_not_waited_for(post, channel, connect, silent, log, monkeypatch, until):
    monkeypatch.setattr(delivery, "LONGEST_S", 1.0)
    forever = post.connection(timeout=100_000).replace(f'"port": {post.port}', f'"port": {silent}')
    connect(smtp_default=forever)
    LifecycleNotifier()(ended())
    assert "not sent by smtp_default (no answer in 1 s): flights version 3 is champion" in log()
    until(lambda: channel.posts)  # however slow this machine is


def test_slack_that_answers_500_is_a_line_in_the_log(channel, log):
    channel.status = 500
    LifecycleNotifier()(ended())
    said = log()
    assert "not sent by slack_default (AirflowException" in said
    assert "no such hook: /services/***', Status Code: 500" in said
    assert CANARY not in said


def test_address_of_the_webhook_that_is_all_in_the_password_is_in_no_log_either(channel, connect, log):
    channel.status = 500
    whole = f"http://127.0.0.1:{channel.port}/services/T0/B0/{CANARY}"
    connect(slack_default=json.dumps({"conn_type": "slackwebhook", "password": whole}))
    LifecycleNotifier()(ended())
    said = log()
    assert "no such hook: ***" in said
    assert CANARY not in said


def test_wrong_password_is_a_line_in_the_log(post, connect, log):
    connect(smtp_default=post.connection().replace("tweety", "sylvester"))
    LifecycleNotifier()(ended())
    said = log()
    assert post.mails == []
    assert "not sent by smtp_default (SMTPAuthenticationError" in said
    assert "sylvester" not in said


def test_result_of_another_make_fails_nothing(post, log):
    LifecycleNotifier()(ended("gate"))
    assert post.mails == []
    assert "no notification was sent: KeyError" in log()


def test_hostile_text_is_only_text(post, channel):
    LifecycleNotifier()(ended(model_name=HOSTILE, reason=HOSTILE * 9_000))
    (mail,) = post.mails
    assert mail["Bcc"] is None
    assert "<script>" not in mail.get_body(("html",)).get_content()
    assert "{{ ti.task_id }}" in mail.get_body(("plain",)).get_content()
    marked = [block["text"]["text"] for block in channel.posts[0]["blocks"] if block["text"]["type"] == "mrkdwn"]
    assert "<!channel>" not in str(marked) + channel.posts[0]["text"]


def test_many_lines_are_counted(post):
    many = [{"outcome": "failed", "reason": f"check {n}"} for n in range(200)]
    LifecycleNotifier()(ended("gate", outcome="failed", checks=many, asks=False, champion="", report=""))
    assert f"and {200 - LINES} more" in post.mails[0].get_body(("plain",)).get_content()
