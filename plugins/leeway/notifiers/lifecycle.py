"""Whoever is to be told is told: `**told()` in a DAG's default_args."""

from __future__ import annotations

from airflow.sdk import BaseNotifier
from airflow.sdk.definitions.context import Context


class LifecycleNotifier(BaseNotifier):
    """Tells what a task's end means to people: drift, verdicts, champions, trainings held back, failures.

    Never fails the task and never holds it up for long; what could not be told is a line in the log. Not templated: the
    providers' own notifiers render their text, and this one has text that came from data.

    Args:
        mail_conn_id: connection of the mail server; its extra says `from_email` and `to`. Not there: no mail.
        slack_conn_id: connection of Slack's incoming webhook. Not there: nothing in Slack.
        failed: whether it is called where a task failed; Airflow's context does not always say so.
    """

    def __init__(
        self, *, mail_conn_id: str = "smtp_default", slack_conn_id: str = "slack_default", failed: bool = False
    ) -> None:
        super().__init__()
        self.mail_conn_id, self.slack_conn_id, self.failed = mail_conn_id, slack_conn_id, failed

    def notify(self, context: Context) -> None:
        """Whoever is configured is told, where the task's end is news."""
        from leeway.notifiers.delivery import in_a_line, news, tell

        try:
            if message := news(context, self.failed):
                tell(message, self.mail_conn_id, self.slack_conn_id, self.log)
        except Exception as error:
            self.log.warning("nobody was told: %s", in_a_line(error))


def lifecycle_callbacks(
    mail_conn_id: str = "smtp_default", slack_conn_id: str = "slack_default"
) -> dict[str, LifecycleNotifier]:
    """What a DAG's default_args need, so that people are told of its tasks."""
    ended, failed = (
        LifecycleNotifier(mail_conn_id=mail_conn_id, slack_conn_id=slack_conn_id, failed=failed)
        for failed in (False, True)
    )
    return {"on_success_callback": ended, "on_skipped_callback": ended, "on_failure_callback": failed}
