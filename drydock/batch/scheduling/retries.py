"""Decide by the retryStrategy of a service job whether a failed attempt is repeated."""

import re
from collections.abc import Mapping
from typing import Any

RETRY = "RETRY"
STATUS_PREFIX = "Received status from SageMaker: "
"""Beginning of a status reason that SageMaker gives: for the end of a training job, or if it refuses the job."""


def should_retry(strategy: Mapping[str, Any] | None, failed_attempts: int, reason: str) -> bool:
    """Return whether a job gets another attempt.

    Args:
        strategy: The job's retryStrategy; None for a single attempt.
        failed_attempts: How many attempts have failed so far, at least 1. Preempted attempts do not count.
        reason: The status reason of the last failed attempt.
    """
    if strategy is None or failed_attempts >= strategy["attempts"]:
        return False
    for rule in strategy.get("evaluateOnExit", []):
        if matches_reason(rule.get("onStatusReason", "*"), reason):
            return bool(rule.get("action", RETRY).upper() == RETRY)
    return True  # as AWS documents it: without a rule that matches, the job is retried


def matches_reason(pattern: str, reason: str) -> bool:
    """Return whether a status reason matches a pattern, in which an asterisk stands for any text.

    AWS's guide has a space after "Received status from SageMaker:", and the sagemaker SDK 3.27 has none in its default
    strategy. Both match.
    """
    regex = ".*".join(re.escape(part) for part in _normalise(pattern).split("*"))
    return re.fullmatch(regex, _normalise(reason), re.DOTALL) is not None


def _normalise(text: str) -> str:
    return re.sub(r"^(Received status from SageMaker:)\s*", r"\1", text)
