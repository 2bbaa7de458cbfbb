"""Make the message about a task that ended, and send it by mail and to Slack at the same time, within a time limit."""

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
from leeway.notifiers.message import MAX_LINE_CHARS, Message, clean
from leeway.notifiers.step_messages import MESSAGE_BUILDERS, build_failure_message, build_step_message

SEND_TIMEOUT_S = 10.0
"""Longest time that a task waits for its message to be sent. Airflow ends the task's process 20 s after the task's work
([core] task_success_overtime)."""


def make_message(context: Context, has_failed: bool) -> Message | None:
    """Return the message about a task that ended; None if nobody needs one, for example if a task of a backfill failed.

    Args:
        context: Airflow's context of the task.
        has_failed: whether the task failed.
    """
    ti, step = context["ti"], getattr(context["task"], "step", "")
    is_backfill = context["dag_run"].run_type == "backfill"
    needs_result = _needs_result(step, has_failed)
    result: Any = ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index) if needs_result else None
    message = build_step_message(step, result or {}, is_backfill=is_backfill, log_url=ti.log_url)
    if message or not has_failed or is_backfill:
        return message
    error = context.get("exception")
    return build_failure_message(
        ti.dag_id, ti.run_id, ti.task_id, try_number=ti.try_number, log_url=ti.log_url, error=error
    )


def send_message(message: Message, mail_conn_id: str, slack_conn_id: str, log: Logger) -> None:
    """Send the message by each connection that exists; log each connection that fails or does not answer in time."""
    senders = {mail_conn_id: mail.send, slack_conn_id: slack.send}
    connections = {conn_id: connection for conn_id in senders if (connection := _find_connection(conn_id))}

    def send(conn_id: str) -> None:
        try:
            recipients = senders[conn_id](message, connections[conn_id])
            no_recipient = f"nobody, because {conn_id} has no `to` in its extra"
            log.info("notified %s: %s", recipients or no_recipient, message.title)
        except Exception as error:
            reason = _mask_password(_describe_error(error), connections[conn_id])
            log.warning("not sent by %s (%s): %s", conn_id, clean(reason, MAX_LINE_CHARS), message.title)

    # Daemon threads, because a thread that hangs must not keep the task's process alive.
    threads = {conn_id: threading.Thread(target=send, args=(conn_id,), daemon=True) for conn_id in connections}
    for thread in threads.values():
        thread.start()
    deadline = time.monotonic() + SEND_TIMEOUT_S
    for conn_id, thread in threads.items():
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            log.warning("not sent by %s (no answer in %.0f s): %s", conn_id, SEND_TIMEOUT_S, message.title)


def format_error_line(error: Exception) -> str:
    """Return the error's type and text as one line for the log."""
    return clean(_describe_error(error), MAX_LINE_CHARS)


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _needs_result(step: str, has_failed: bool) -> bool:
    """Return whether the message needs the step's result. For a failed task, only the message of a guard needs it."""
    return step == "guard" if has_failed else step in MESSAGE_BUILDERS


def _find_connection(conn_id: str) -> Connection | None:
    try:
        connection: Connection = Connection.get(conn_id)
    except AirflowNotFoundException:
        return None
    return connection


def _mask_password(text: str, connection: Connection) -> str:
    """Mask the password in an error: a server may repeat it. If the password is a URL, mask its path too."""
    password = connection.password or ""
    for secret in filter(None, (password, urlsplit(password).path)):
        text = text.replace(secret, "***")
    return text
