"""The operator that runs the step `outcomes`."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.context import Context

from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator, skip_if_nothing_done


class OutcomesOperator(StepOperator):
    """Join the labels of a published partition to its predictions. Idempotent.

    The task is skipped, with the reason, if no prediction has a label.

    Args:
        dataset: dataset whose published partition has the labels (templated); by default the one in the
            model's parameters.
        model: registered model whose predictions get the labels (templated).
        partition: day, hour or month of the labels and the predictions (templated), as for `IngestOperator`; by default
            the run's partition.
        online: whether to join the scores that endpoints returned, which `CollectOperator` stored, instead of those of
            `ScoreOperator` (templated).

    Returns:
        `OutcomesResult`: table, partition, model_name, outcomes, unlabelled, changed, reason.
    """

    step = "outcomes"
    fields = ("dataset", "model", "partition", "online")

    def __init__(
        self,
        *,
        dataset: str = "",
        model: str,
        partition: str = PARTITION,
        online: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model, self.partition, self.online = dataset, model, partition, online

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result; skip the task if no prediction has a label."""
        return skip_if_nothing_done(context, super().execute(context))
