"""Turn the end of a deployment into the task's error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

TEMPORARY_TEXTS = ("CapacityError", "InsufficientInstanceCapacity", "InternalServerError", "internal error")
"""Texts in the FailureReason that show that a retry can help."""
MAX_REASON_CHARS = 900
"""Longest reason in an error. The middle of a longer one is left out, because its end has the last lines of a log."""
LOG_LINES = 3
"""Number of last lines of a variant's log in the error of a version that does not start."""


def format_reason(endpoint: Mapping[str, Any]) -> str:
    """Return SageMaker's FailureReason in one line of limited length."""
    reason = " ".join(str(endpoint.get("FailureReason") or "no reason is given").split())
    half = MAX_REASON_CHARS // 2
    return reason if len(reason) <= MAX_REASON_CHARS else f"{reason[:half]} ... {reason[-half:]}"


def find_causing_alarms(reason: str, alarms: Mapping[str, str], raised_alarms: Mapping[str, str]) -> list[str]:
    """Return the alarms that caused a failed deployment: those that SageMaker's reason names.

    If the reason names none, return all raised alarms if the reason is about an alarm; otherwise return no alarm.

    Args:
        reason: SageMaker's FailureReason.
        alarms: name of each alarm of the endpoint, and the reason of its state.
        raised_alarms: the alarms in the state ALARM, in the same form.
    """
    if named_alarms := [name for name in alarms if name in reason]:
        return named_alarms
    return list(raised_alarms) if "alarm" in reason.lower() else []


def describe_cause(reason: str, causes: Sequence[str], alarm_reasons: Mapping[str, str]) -> str:
    """Describe the cause of a failed deployment: the alarms with their reasons, and SageMaker's reason.

    Args:
        reason: SageMaker's FailureReason.
        causes: names of the alarms that caused the rollback.
        alarm_reasons: name of each alarm of the endpoint, and the reason of its state.
    """
    texts = [f"{name} ({text.rstrip('.')})" if (text := alarm_reasons.get(name)) else name for name in causes]
    return f"rolled back by alarm {', '.join(texts)}: {reason}" if causes else reason


def make_deployment_error(text: str, reason: str) -> AirflowException:
    """Return the error of a failed deployment.

    It is an AirflowException if a retry can help, because SageMaker failed or had no capacity; otherwise, it is an
    AirflowFailException.
    """
    is_temporary = any(temporary_text in reason for temporary_text in TEMPORARY_TEXTS)
    return (AirflowException if is_temporary else AirflowFailException)(text)


def refuse_conversion(endpoint: Mapping[str, Any], is_serverless: bool) -> None:
    """Refuse an update from instances to a serverless variant, which SageMaker does not support.

    Args:
        endpoint: SageMaker's description of the endpoint.
        is_serverless: whether the new configuration is serverless.

    Raises:
        AirflowFailException: the endpoint has instances, and the new configuration none. A retry cannot help.
    """
    has_instances = any("CurrentServerlessConfig" not in item for item in endpoint.get("ProductionVariants", []))
    if is_serverless and has_instances:
        raise AirflowFailException(
            f"endpoint {endpoint['EndpointName']} has instances, and SageMaker cannot make it serverless: give another "
            "endpoint, or delete this one first (`python -m pipelines undeploy`)."
        )


def format_log_end(lines: Sequence[str]) -> str:
    """Return a sentence with the last lines of a log, for the end of an error; empty without lines.

    A long text is cut at its beginning, because a traceback has the error in its last line.
    """
    text = " | ".join(lines[-LOG_LINES:])[-MAX_REASON_CHARS:]
    return f" The end of its log: {text}" if text else ""
