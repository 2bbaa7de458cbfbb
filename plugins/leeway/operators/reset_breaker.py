"""The operator that runs the step `reset_breaker`."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator


class ResetBreakerOperator(StepOperator):
    """Reset the breaker of a model, so that it counts only later trainings. Idempotent: a DAG run resets it once.

    The breaker is a guard: it pauses retrainings after several in a row did not pass the gate.

    Args:
        model: registered model (templated).
        why: reason, which is recorded (templated).

    Returns:
        `ResetBreakerResult`: model_name, changed, who, why.
    """

    step = "reset_breaker"
    fields = ("model", "why")

    def __init__(self, *, model: str, why: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model, self.why = model, why
