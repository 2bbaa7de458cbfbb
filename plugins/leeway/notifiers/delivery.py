"""Make the message about a task that ended, and send it by mail and Slack at the same time, for a limited time."""

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
from leeway.notifiers.step_messages import BUILDERS, build_failure_message, build_step_message

LONGEST_S = 10.0
"""Longest wait of a task: Airflow ends the task 20 s after its work ([core] task_success_overtime)."""


def make_message(context: Context, failed: bool) -> Message | None:
    """Return the message about a task that ended; None if nobody needs one, for example if a backfill failed."""
    ti, step = context["ti"], getattr(context["task"], "step", "")
    backfill = context["dag_run"].run_type == "backfill"
    result: Any = ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index) if _has_message(step, failed) else None
    log = ti.log_url
    message = build_step_message(step, result or {}, backfill=backfill, log=log)
    if message or not failed or backfill:
        return message
    error = context.get("exception")
    return build_failure_message(ti.dag_id, ti.run_id, ti.task_id, try_number=ti.try_number, log=log, error=error)


def send_message(message: Message, mail_conn_id: str, slack_conn_id: str, log: Logger) -> None:
    """Send the message by each connection that exists; log those that fail or do not answer in time."""
    senders = {mail_conn_id: mail.send, slack_conn_id: slack.send}
    connections = {conn_id: connection for conn_id in senders if (connection := _find_connection(conn_id))}

    def send(conn_id: str) -> None:
        try:
            to = senders[conn_id](message, connections[conn_id])
            log.info("notified %s: %s", to or f"nobody, {conn_id} has no `to` in its extra", message.title)
        except Exception as error:
            reason = _remove_secrets(_describe(error), connections[conn_id])
            log.warning("not sent by %s (%s): %s", conn_id, clean(reason, LINE), message.title)

    # Daemon threads: one that hangs must not keep the task's process from ending.
    threads = {conn_id: threading.Thread(target=send, args=(conn_id,), daemon=True) for conn_id in connections}
    for thread in threads.values():
        thread.start()
    deadline = time.monotonic() + LONGEST_S
    for conn_id, thread in threads.items():
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            log.warning("not sent by %s (no answer in %.0f s): %s", conn_id, LONGEST_S, message.title)


def format_error_line(error: Exception) -> str:
    """Return the error as one line for the log."""
    return clean(_describe(error), LINE)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _has_message(step: str, failed: bool) -> bool:
    """Return whether the step's result makes a message. Of failed tasks only a guard has a result."""
    return step == "guard" if failed else step in BUILDERS


def _find_connection(conn_id: str) -> Connection | None:
    try:
        connection: Connection = Connection.get(conn_id)
    except AirflowNotFoundException:
        return None
    return connection


def _remove_secrets(text: str, connection: Connection) -> str:
    """Mask secrets in a server's answer, which may repeat the request: the path of Slack's address is a secret."""
    password = connection.password or ""
    for secret in filter(None, (password, urlsplit(password).path)):
        text = text.replace(secret, "***")
    return text
