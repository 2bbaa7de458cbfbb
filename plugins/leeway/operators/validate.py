"""ValidateOperator."""

from __future__ import annotations

from typing import Any

from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator


class ValidateOperator(StepOperator):
    """Judges a staged partition by its suite in expectations/ and publishes it, unless a critical expectation failed.

    A refused partition fails the task without retries; its evidence is kept, and no asset event is emitted.
    Idempotent.

    Args:
        dataset: dataset whose partition is judged (templated).
        partition: day to judge, YYYY-MM-DD (templated); the run's partition where it is not given.
        suite: suite in expectations/ (templated); the one named as the dataset where it is not given.

    Returns:
        `ValidateResult`: table, partition, rows, evaluated, warnings, evidence, snapshot_id, changed.
    """

    step = "validate"
    fields = ("dataset", "partition", "suite")

    def __init__(self, *, dataset: str, partition: str = PARTITION, suite: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset, self.partition, self.suite = dataset, partition, suite
