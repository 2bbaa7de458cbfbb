"""PromoteOperator."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator


class PromoteOperator(StepOperator):
    """Makes a version the champion, where its verdict is a yes and it is not older than the champion. Idempotent.

    Args:
        model_name: registered model (templated).
        version: version to promote (templated).
        verdict: file of the verdict, as GateOperator returned it (templated).

    Returns:
        `PromoteResult`: model_name, version, previous, changed.
    """

    step = "promote"
    fields = ("model_name", "version", "verdict")

    def __init__(self, *, model_name: str, version: str, verdict: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model_name, self.version, self.verdict = model_name, version, verdict
