"""The operator that runs the step `score`."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.context import Context

from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator, skip_if_nothing_done


class ScoreOperator(StepOperator):
    """Score a published partition with the champion, and store the predictions. Idempotent.

    The task is skipped, with the reason, if no champion was trained as of the partition's first day or before.
    A version that was trained later may have seen labels of the partition.

    Args:
        dataset: dataset whose published partition is scored (templated); by default the one in the model's parameters.
        model: registered model (templated).
        partition: day, hour or month to score (templated), as for `IngestOperator`; by default the run's partition.
        version: version to score with (templated); by default the champion; for a partition that begins before the
            champion's as_of, the champion of that day.

    Returns:
        `ScoreResult`: table, partition, model_name, version, scored, changed, rows, large, reason.
    """

    step = "score"
    fields = ("dataset", "model", "partition", "version")

    def __init__(
        self,
        *,
        dataset: str = "",
        model: str,
        partition: str = PARTITION,
        version: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model = dataset, model
        self.partition, self.version = partition, version

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result; skip the task if no champion may score the partition."""
        return skip_if_nothing_done(context, super().execute(context))
