"""Notify people about a model's life: `**lifecycle_callbacks()` in a DAG's default_args."""

from __future__ import annotations

from airflow.sdk import BaseNotifier
from airflow.sdk.definitions.context import Context


class LifecycleNotifier(BaseNotifier):
    """Notify people when the end of a task is news: drift, verdicts, champions, trainings held back, failures.

    A notifier never fails the task and never delays it for long; a message that could not be sent is a line in the log.
    It has no templates: the providers' own notifiers render their text, and the text here comes from data.

    Args:
        mail_conn_id: connection of the mail server; its extra has `from_email` and `to`. Without it no mail is sent.
        slack_conn_id: connection of Slack's incoming webhook. Without it nothing is sent to Slack.
        failed: whether this is the callback of failed tasks; Airflow's context does not always say so.
    """

    def __init__(
        self, *, mail_conn_id: str = "smtp_default", slack_conn_id: str = "slack_default", failed: bool = False
    ) -> None:
        super().__init__()
        self.mail_conn_id, self.slack_conn_id, self.failed = mail_conn_id, slack_conn_id, failed

    def notify(self, context: Context) -> None:
        """Send a message by each configured connection, if the task's end is news."""
        from leeway.notifiers.delivery import format_error_line, make_message, send_message

        try:
            if message := make_message(context, self.failed):
                send_message(message, self.mail_conn_id, self.slack_conn_id, self.log)
        except Exception as error:
            self.log.warning("no notification was sent: %s", format_error_line(error))


def lifecycle_callbacks(
    mail_conn_id: str = "smtp_default", slack_conn_id: str = "slack_default"
) -> dict[str, LifecycleNotifier]:
    """Return the callbacks that a DAG's default_args need for notifications about its tasks."""
    ended, failed = (
        LifecycleNotifier(mail_conn_id=mail_conn_id, slack_conn_id=slack_conn_id, failed=failed)
        for failed in (False, True)
    )
    return {"on_success_callback": ended, "on_skipped_callback": ended, "on_failure_callback": failed}
