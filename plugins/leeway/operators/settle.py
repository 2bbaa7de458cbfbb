"""SettleOperator."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator


class SettleOperator(StepOperator):
    """Records what became of a training that `GuardOperator` let start. Idempotent.

    Make it the teardown of the guard, so that it runs whatever failed between them, and hides no failure:
    `settle.as_teardown(setups=guard)`.

    Args:
        model_name: registered model (templated).
        version: version that the run's gate judged; empty where it did not come so far (templated).

    Returns:
        `SettleResult`: model_name, version, outcome, changed.
    """

    step = "settle"
    fields = ("model_name", "version")

    def __init__(self, *, model_name: str, version: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model_name, self.version = model_name, version
