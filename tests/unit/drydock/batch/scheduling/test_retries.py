"""Test which failed attempts of service jobs are repeated."""

import pytest

from drydock.batch.scheduling.retries import should_retry

FAILURE = "Received status from SageMaker: AlgorithmError: ExecuteUserScriptError"
INTERNAL = "Received status from SageMaker: InternalServerError: We encountered an internal error. Please try again."
RETRY_INTERNAL = [
    # The sagemaker SDK's default strategy, without the space.
    {
        "action": "RETRY",
        "onStatusReason": "Received status from SageMaker:InternalServerError: "
        "We encountered an internal error. Please try again.",
    },
    {"action": "EXIT", "onStatusReason": "*"},
]


@pytest.mark.parametrize(
    ("strategy", "failed_attempts", "reason", "expected"),
    [
        (None, 1, FAILURE, False),
        ({"attempts": 1}, 1, FAILURE, False),
        ({"attempts": 3}, 1, FAILURE, True),
        ({"attempts": 3}, 2, FAILURE, True),
        ({"attempts": 3}, 3, FAILURE, False),
        ({"attempts": 3, "evaluateOnExit": RETRY_INTERNAL}, 1, FAILURE, False),
        ({"attempts": 3, "evaluateOnExit": RETRY_INTERNAL}, 1, INTERNAL, True),
        ({"attempts": 3, "evaluateOnExit": RETRY_INTERNAL}, 3, INTERNAL, False),
        ({"attempts": 3, "evaluateOnExit": [{"action": "EXIT", "onStatusReason": "Other*"}]}, 1, FAILURE, True),
        (
            {"attempts": 3, "evaluateOnExit": [{"action": "exit", "onStatusReason": "*AlgorithmError*"}]},
            1,
            FAILURE,
            False,
        ),
    ],
)
def test_attempts_and_rules_decide(
    strategy: dict[str, object] | None, failed_attempts: int, reason: str, expected: bool
) -> None:
    assert should_retry(strategy, failed_attempts, reason) is expected
