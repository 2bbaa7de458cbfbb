"""The operator that runs the step `withdraw`."""

from __future__ import annotations

from typing import Any

from leeway.links.data_docs import DataDocsLink
from leeway.operators.step import StepOperator


class WithdrawOperator(StepOperator):
    """Withdraw a published partition whose rows turned out to be wrong, and record who did it and why. Idempotent.

    The rows and their outcomes (scores with labels) are removed; older snapshots of the lake still have them.

    Args:
        dataset: dataset whose published partition is withdrawn (templated).
        partition: day, hour or month to withdraw (templated).
        why: reason, which is recorded (templated).

    Returns:
        `WithdrawResult`: table, partition, rows, who, docs, changed.
    """

    step = "withdraw"
    fields = ("dataset", "partition", "why")
    operator_extra_links = (DataDocsLink(),)

    def __init__(self, *, dataset: str, partition: str, why: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset, self.partition, self.why = dataset, partition, why
