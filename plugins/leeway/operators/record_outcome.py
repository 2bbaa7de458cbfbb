"""RecordOutcomeOperator."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator


class RecordOutcomeOperator(StepOperator):
    """Record how a training ended that `GuardOperator` let start: passed, not passed or failed. Idempotent.

    Make it the teardown of the guard, so that it runs whatever failed between them and hides no failure:
    `record_outcome.as_teardown(setups=guard)`.

    Args:
        model_name: registered model (templated).
        version: version that the run's gate judged (templated); empty or None if the run did not come so far.

    Returns:
        `RecordOutcomeResult`: model_name, version, outcome, changed.
    """

    step = "record_outcome"
    fields = ("model_name", "version")

    def __init__(self, *, model_name: str, version: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model_name, self.version = model_name, version
