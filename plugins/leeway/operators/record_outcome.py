"""The operator that runs the step `record_outcome`."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator


class RecordOutcomeOperator(StepOperator):
    """Record how a training that `GuardOperator` allowed has ended: passed, not passed or failed. Idempotent.

    Make it the teardown of the guard: `record_outcome.as_teardown(setups=guard)`. It then runs even if a task between
    the guard and this task fails, and the DAG run fails nevertheless.

    Args:
        model: registered model (templated).
        version: version that the run's gate judged (templated); empty or None if the run ended before its gate.

    Returns:
        `RecordOutcomeResult`: model_name, version, outcome, changed.
    """

    step = "record_outcome"
    fields = ("model", "version")

    def __init__(self, *, model: str, version: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model, self.version = model, version
