"""ScoreOperator."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.context import Context

from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator, skip_if_nothing_done


class ScoreOperator(StepOperator):
    """Scores a published partition with the champion, and keeps the predictions. Idempotent.

    The task is skipped, with the reason, while there is no champion that may score the day.

    Args:
        dataset: dataset whose published partition is scored (templated).
        model_name: registered model (templated).
        partition: day to score, YYYY-MM-DD (templated); the run's partition where it is not given.
        version: version to score with (templated); the champion where it is not given.

    Returns:
        `ScoreResult`: table, partition, model_name, version, scored, changed, rows, large, reason.
    """

    step = "score"
    fields = ("dataset", "model_name", "partition", "version")

    def __init__(
        self,
        *,
        dataset: str,
        model_name: str,
        partition: str = PARTITION,
        version: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model_name = dataset, model_name
        self.partition, self.version = partition, version

    def execute(self, context: Context) -> Any:
        """The step's Result."""
        return skip_if_nothing_done(context, super().execute(context))
