"""What there is to tell of a task that ended, and telling it by mail and in Slack at once, for a bounded time."""

from __future__ import annotations

import threading
import time
from typing import Any
from urllib.parse import urlsplit

from airflow.sdk import Connection
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowNotFoundException

from leeway.hooks.step.hook import Logger
from leeway.notifiers import mail, slack
from leeway.notifiers.message import LINE, Message, clean
from leeway.notifiers.step_messages import SAYS, failure_of, message_of

LONGEST_S = 10.0
"""Longest that a task waits: Airflow ends it 20 s after its work ([core] task_success_overtime)."""


def news(context: Context, failed: bool) -> Message | None:
    """What there is to tell of a task that ended; None where that is nothing. A backfill's failures show in the UI."""
    ti, step = context["ti"], getattr(context["task"], "step", "")
    backfill = context["dag_run"].run_type == "backfill"
    result: Any = ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index) if _tells(step, failed) else None
    log = ti.log_url
    message = message_of(step, result or {}, backfill=backfill, log=log)
    if message or not failed or backfill:
        return message
    error = context.get("exception")
    return failure_of(ti.dag_id, ti.run_id, ti.task_id, tried=ti.try_number, log=log, error=error)


def tell(message: Message, mail_conn_id: str, slack_conn_id: str, log: Logger) -> None:
    """The message is on its way by each connection that there is; what fails or hangs is a line in the log."""
    ways = {mail_conn_id: mail.send, slack_conn_id: slack.send}
    found = {conn_id: connection for conn_id in ways if (connection := _configured(conn_id))}

    def send(conn_id: str) -> None:
        try:
            to = ways[conn_id](message, found[conn_id])
            log.info("told %s: %s", to or f"nobody, {conn_id} has no `to` in its extra", message.title)
        except Exception as error:
            why = _without_secrets(_said(error), found[conn_id])
            log.warning("not told by %s (%s): %s", conn_id, clean(why, LINE), message.title)

    # Daemons: one that hangs must not keep the task's process from ending.
    threads = {conn_id: threading.Thread(target=send, args=(conn_id,), daemon=True) for conn_id in found}
    for thread in threads.values():
        thread.start()
    ends = time.monotonic() + LONGEST_S
    for conn_id, thread in threads.items():
        thread.join(max(0.0, ends - time.monotonic()))
        if thread.is_alive():
            log.warning("not told by %s (no answer in %.0f s): %s", conn_id, LONGEST_S, message.title)


def in_a_line(error: Exception) -> str:
    """The error, for the log."""
    return clean(_said(error), LINE)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _tells(step: str, failed: bool) -> bool:
    """Whether the result tells what happened: of what failed only a guard's, which fails where a person has to look."""
    return step == "guard" if failed else step in SAYS


def _configured(conn_id: str) -> Connection | None:
    try:
        found: Connection = Connection.get(conn_id)
    except AirflowNotFoundException:
        return None
    return found


def _without_secrets(text: str, connection: Connection) -> str:
    """A server's answer may tell what it was asked: Slack's address is a secret, in its path."""
    password = connection.password or ""
    for secret in filter(None, (password, urlsplit(password).path)):
        text = text.replace(secret, "***")
    return text
