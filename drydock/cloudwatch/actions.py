"""Publish the changes of alarms' states to the SNS topics that the alarms name as actions.

The topics are moto's. Other actions are not executed here: `drydock.autoscaling` executes the scaling policies of
variants, and the rest is ignored.
"""

import functools
import json
import logging
import threading
from collections.abc import Collection
from datetime import datetime
from typing import Any

from botocore.loaders import Loader
from moto.sns.models import sns_backends

log = logging.getLogger(__name__)

# Each state, and the attribute of moto's alarm that has the actions for a change to this state.
ACTIONS = {
    "OK": "ok_actions",
    "ALARM": "alarm_actions",
    "INSUFFICIENT_DATA": "insufficient_data_actions",
}
# A new alarm has insufficient data on AWS. In moto, it has another state, and this reason.
FIRST_STATE, FIRST_REASON = "INSUFFICIENT_DATA", "Unchecked: Initial alarm creation"
TOPIC_PREFIX = "arn:aws:sns:"
MAX_SUBJECT_CHARS = 100
"""SNS's limit for the subject of a message."""


class AlarmActions:
    """Stores the last state of each alarm, and executes the actions of a change of state."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._threads: dict[str, threading.Thread] = {}  # the latest thread that publishes, by the alarm's ARN

    def forget_deleted_alarms(self, existing_arns: Collection[str]) -> None:
        """Forget the states of the alarms that no longer exist."""
        self._states = {arn: state for arn, state in self._states.items() if arn in existing_arns}
        self._threads = {arn: thread for arn, thread in self._threads.items() if arn in existing_arns}

    def execute(self, alarm: Any, account_id: str) -> None:
        """Execute the actions of an alarm whose state has changed since the last call, in the background.

        Args:
            alarm: moto's alarm. An alarm that a client has replaced keeps its state, as on AWS.
            account_id: Id of the alarm's account.
        """
        if alarm.state_reason == FIRST_REASON:
            return
        old_state, new_state = self._states.get(alarm.alarm_arn, FIRST_STATE), str(alarm.state_value)
        self._states[alarm.alarm_arn] = new_state
        actions = getattr(alarm, ACTIONS[new_state]) or ()
        topics = [arn for arn in actions if arn.startswith(TOPIC_PREFIX)]
        if new_state == old_state or not alarm.actions_enabled or not topics:
            return
        region = _describe_region(alarm.region_name)
        subject = f'{new_state}: "{alarm.name}" in {region}'[:MAX_SUBJECT_CHARS]
        message = json.dumps(_build_message(alarm, account_id, old_state, region))
        # In a thread: a subscriber's HTTP server may be slow, and the other alarms must be evaluated meanwhile.
        arguments = (self._threads.get(alarm.alarm_arn), topics, subject, message)
        thread = threading.Thread(target=_publish, args=arguments, name=f"actions of {alarm.name}", daemon=True)
        self._threads[alarm.alarm_arn] = thread
        thread.start()


def _publish(previous_thread: threading.Thread | None, topics: Collection[str], subject: str, message: str) -> None:
    """Publish an alarm's message to topics, after the previous message: subscribers get the changes in their order."""
    if previous_thread is not None:
        previous_thread.join()
    for arn in topics:
        try:
            region, account_id = arn.removeprefix(TOPIC_PREFIX).split(":")[:2]
            topic = sns_backends[account_id][region].topics.get(arn)
            if topic is None:
                log.warning("an alarm's action was not executed: there is no topic %s", arn)
            else:
                topic.publish(message, subject=subject)
        except Exception:  # the ARN is not valid, or no subscriber answers; the other topics must get the message
            log.exception("an alarm's action on the topic %s failed", arn)


def _build_message(alarm: Any, account_id: str, old_state: str, region: str) -> dict[str, Any]:
    """Return the content of CloudWatch's notification."""
    return {
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.description or None,
        "AWSAccountId": account_id,
        "AlarmConfigurationUpdatedTimestamp": _format_time(alarm.configuration_updated_timestamp),
        "NewStateValue": alarm.state_value,
        "NewStateReason": alarm.state_reason,
        "StateChangeTime": _format_time(alarm.state_updated_timestamp),
        "Region": region,
        "AlarmArn": alarm.alarm_arn,
        "OldStateValue": old_state,
        "OKActions": alarm.ok_actions or [],
        "AlarmActions": alarm.alarm_actions or [],
        "InsufficientDataActions": alarm.insufficient_data_actions or [],
        "Trigger": {
            "MetricName": alarm.metric_name,
            "Namespace": alarm.namespace,
            "StatisticType": "ExtendedStatistic" if alarm.extended_statistic else "Statistic",
            **_describe_statistic(alarm),
            "Unit": alarm.unit,
            "Dimensions": [{"value": item.value, "name": item.name} for item in alarm.dimensions],
            "Period": alarm.period and int(alarm.period),
            "EvaluationPeriods": alarm.evaluation_periods and int(alarm.evaluation_periods),
            "DatapointsToAlarm": alarm.datapoints_to_alarm and int(alarm.datapoints_to_alarm),
            "ComparisonOperator": alarm.comparison_operator,
            "Threshold": None if alarm.threshold is None else float(alarm.threshold),
            "TreatMissingData": alarm.treat_missing_data or "missing",
            "EvaluateLowSampleCountPercentile": alarm.evaluate_low_sample_count_percentile or "",
        },
    }


def _describe_statistic(alarm: Any) -> dict[str, str | None]:
    if alarm.extended_statistic:
        return {"ExtendedStatistic": alarm.extended_statistic}
    return {"Statistic": alarm.statistic and alarm.statistic.upper()}


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}+0000"


@functools.lru_cache
def _describe_region(name: str) -> str:
    """Return the name of a region as notifications show it: US East (N. Virginia)."""
    for partition in Loader().load_data("endpoints")["partitions"]:
        if name in partition["regions"]:
            return str(partition["regions"][name]["description"])
    return name
