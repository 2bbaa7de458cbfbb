"""Test that alarms publish the changes of their states to SNS topics, whose subscribers get CloudWatch's message."""

import json
import time
from typing import Any


def create_topic(drydock: Any, name: str) -> tuple[str, str]:
    """Create a topic and a queue that subscribes to it. Return the topic's ARN and the queue's URL."""
    sns, sqs = drydock.client("sns"), drydock.client("sqs")
    arn = sns.create_topic(Name=name)["TopicArn"]
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    queue_arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue_arn)
    return arn, url


def put_alarm(drydock: Any, name: str, **fields: Any) -> None:
    """Put an alarm on the number of errors, of which there may be 10 a minute."""
    drydock.client("cloudwatch").put_metric_alarm(
        AlarmName=name,
        Namespace="mine",
        MetricName=name,
        Dimensions=[{"Name": "model", "Value": "flights"}],
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=10,
        ComparisonOperator="GreaterThanThreshold",
        **fields,
    )


def put_errors(drydock: Any, name: str, count: float) -> None:
    """Report a number of errors now."""
    datum = {"MetricName": name, "Dimensions": [{"Name": "model", "Value": "flights"}], "Value": count}
    drydock.client("cloudwatch").put_metric_data(Namespace="mine", MetricData=[datum])


def read_state(drydock: Any, name: str) -> str:
    """Return the state of an alarm."""
    (alarm,) = drydock.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return str(alarm["StateValue"])


def receive(drydock: Any, url: str) -> dict[str, Any]:
    """Wait for the next notification of a queue, and return its subject and its message."""

    def find() -> list[dict[str, Any]]:
        return list(drydock.client("sqs").receive_message(QueueUrl=url).get("Messages", []))

    (message,) = drydock.wait_until("a notification", find)
    drydock.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    notification = json.loads(message["Body"])
    return {
        "subject": notification["Subject"],
        "topic": notification["TopicArn"],
        **json.loads(notification["Message"]),
    }


def test_change_of_a_state_is_published_with_its_reason(drydock: Any) -> None:
    arn, url = create_topic(drydock, "changes")
    actions = {"AlarmActions": [arn], "OKActions": [arn]}
    put_alarm(drydock, "errors", AlarmDescription="too many", **actions)
    drydock.wait_until("no data", lambda: read_state(drydock, "errors") == "INSUFFICIENT_DATA")
    put_errors(drydock, "errors", 25)
    message = receive(drydock, url)
    assert message["subject"] == 'ALARM: "errors" in US East (N. Virginia)' and message["topic"] == arn
    assert (message["OldStateValue"], message["NewStateValue"]) == ("INSUFFICIENT_DATA", "ALARM")
    assert message["AWSAccountId"] == "123456789012" and message["AlarmDescription"] == "too many"
    assert message["NewStateReason"] == "Threshold Crossed: Sum of errors crossed the threshold 10.0."
    trigger = message["Trigger"]
    assert trigger["Dimensions"] == [{"value": "flights", "name": "model"}]
    assert (trigger["Statistic"], trigger["Threshold"], trigger["Period"]) == ("SUM", 10.0, 60)
    put_alarm(drydock, "errors", **actions)  # it has the state ALARM still, as on AWS
    drydock.client("cloudwatch").set_alarm_state(AlarmName="errors", StateValue="OK", StateReason="by hand")
    message = receive(drydock, url)
    assert (message["OldStateValue"], message["NewStateValue"]) == ("ALARM", "OK")
    assert (message["subject"][:3], message["NewStateReason"]) == ("OK:", "by hand")
    drydock.client("cloudwatch").delete_alarms(AlarmNames=["errors"])


def test_disabled_actions_and_other_states_publish_nothing(drydock: Any) -> None:
    arn, url = create_topic(drydock, "nothing")
    put_alarm(drydock, "disabled", AlarmActions=[arn], ActionsEnabled=False)
    put_alarm(drydock, "other", OKActions=[arn])
    put_alarm(drydock, "elsewhere", AlarmActions=["arn:aws:sns:us-east-1:123456789012:no-such-topic"])
    put_alarm(drydock, "policy", AlarmActions=["arn:aws:automate:us-east-1:ec2:stop"])
    names = ("disabled", "other", "elsewhere", "policy")
    for name in names:
        put_errors(drydock, name, 25)
    for name in names:
        drydock.wait_until(name, lambda name=name: read_state(drydock, name) == "ALARM")
    time.sleep(1)  # two evaluations
    assert "Messages" not in drydock.client("sqs").receive_message(QueueUrl=url)
    log = (drydock.data.parent / "log").read_text()
    assert "there is no topic arn:aws:sns:us-east-1:123456789012:no-such-topic" in log
    drydock.client("cloudwatch").delete_alarms(AlarmNames=list(names))
