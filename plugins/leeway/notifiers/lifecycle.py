"""Notify people about drift, verdicts, promotions and failures: put `**build_lifecycle_callbacks()` in default_args."""

from __future__ import annotations

from airflow.sdk import BaseNotifier
from airflow.sdk.definitions.context import Context


class LifecycleNotifier(BaseNotifier):
    """Notify people about drift, verdicts, changes of the champion, trainings held back, and failed tasks.

    A notifier never fails the task, and delays it by 10 seconds at most. If a message cannot be sent, the log says so.
    No field is templated, because the text of the messages comes from data and must not be rendered.

    Args:
        mail_conn_id: connection of the mail server; its extra has `from_email` and `to`. If there is no such
            connection, no mail is sent.
        slack_conn_id: connection of Slack's incoming webhook. If there is no such connection, nothing is sent to Slack.
        failed: whether this notifier is an on_failure_callback. Airflow's context does not always say that a task
            failed.
    """

    def __init__(
        self, *, mail_conn_id: str = "smtp_default", slack_conn_id: str = "slack_default", failed: bool = False
    ) -> None:
        super().__init__()
        self.mail_conn_id, self.slack_conn_id, self.failed = mail_conn_id, slack_conn_id, failed

    def notify(self, context: Context) -> None:
        """Send the message about the task, if there is one, by each connection that exists."""
        from leeway.notifiers.delivery import format_error_line, make_message, send_message

        try:
            if message := make_message(context, self.failed):
                send_message(message, self.mail_conn_id, self.slack_conn_id, self.log)
        except Exception as error:
            self.log.warning("no notification was sent: %s", format_error_line(error))


def build_lifecycle_callbacks(
    mail_conn_id: str = "smtp_default", slack_conn_id: str = "slack_default"
) -> dict[str, LifecycleNotifier]:
    """Return the callbacks that a DAG's default_args need for notifications about its tasks.

    Args:
        mail_conn_id: connection of the mail server; see `LifecycleNotifier`.
        slack_conn_id: connection of Slack's incoming webhook.
    """
    end_notifier, failure_notifier = (
        LifecycleNotifier(mail_conn_id=mail_conn_id, slack_conn_id=slack_conn_id, failed=has_failed)
        for has_failed in (False, True)
    )
    return {
        "on_success_callback": end_notifier,
        "on_skipped_callback": end_notifier,
        "on_failure_callback": failure_notifier,
    }
