"""The operator that runs the step `skew`."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator


class SkewOperator(StepOperator):
    """Compare what requests saw with what the lake says of the same rows; fail if too many differ. Idempotent.

    Section `skew` of params.yaml sets the share that may differ. With too few rows, the task succeeds, and its result
    says `undecided`.

    Args:
        dataset: dataset of the rows (templated); by default the one in the model's parameters.
        model: registered model (templated).
        requests: folder that `serve --record` wrote (templated).
        partition: day, hour or month to compare (templated), as for `IngestOperator`; by default the run's partition.

    Returns:
        `SkewResult`: partition, model_name, versions, outcome, rows, unmatched, differing, reason.
    """

    step = "skew"
    fields = ("dataset", "model", "requests", "partition")

    def __init__(
        self, *, dataset: str = "", model: str, requests: str, partition: str = PARTITION, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model, self.requests, self.partition = dataset, model, requests, partition

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result.

        Raises:
            AirflowFailException: a feature or the score differs in too many rows. The result is pushed as XCom before.
        """
        result = super().execute(context)
        if result["outcome"] == "skew":
            context["ti"].xcom_push("return_value", result)
            raise AirflowFailException(f"requests of {result['partition']} differ from the lake: {result['reason']}")
        return result
