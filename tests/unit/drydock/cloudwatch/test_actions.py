"""Test that the messages of one alarm keep their order, and that a bad action does not stop the others."""

import json
import time
from typing import Any

import pytest
from moto.sns.models import sns_backends

from drydock.cloudwatch.actions import AlarmActions
from tests.tools.alarms import build_alarm
from tests.tools.waiting import wait_until


def test_messages_come_in_the_order_of_the_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = sns_backends["123456789012"]["us-east-1"].create_topic("changes")
    states: list[str] = []
    pauses_s = iter([0.3, 0, 0])  # the first delivery takes longer than the others

    def publish(message: str, **_: Any) -> None:
        time.sleep(next(pauses_s))
        states.append(json.loads(message)["NewStateValue"])

    monkeypatch.setattr(topic, "publish", publish)
    _, alarm = build_alarm({}, ok_actions=[topic.arn], alarm_actions=[topic.arn])
    actions = AlarmActions()
    for state in ("ALARM", "OK", "ALARM"):
        alarm.update_state("by hand", "{}", state)
        actions.execute(alarm, "123456789012")
    wait_until(lambda: len(states) == 3)
    assert states == ["ALARM", "OK", "ALARM"]


def test_an_incomplete_arn_does_not_stop_the_other_topics(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = sns_backends["123456789012"]["us-east-1"].create_topic("changes")
    messages: list[str] = []
    monkeypatch.setattr(topic, "publish", lambda message, **_: messages.append(message))
    _, alarm = build_alarm({}, alarm_actions=["arn:aws:sns:changes", topic.arn])
    alarm.update_state("by hand", "{}", "ALARM")
    AlarmActions().execute(alarm, "123456789012")
    wait_until(lambda: bool(messages))
    assert "arn:aws:sns:changes" in caplog.text
