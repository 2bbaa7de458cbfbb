"""The operator that runs the step `collect`."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.context import Context

from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator, skip_if_nothing_done


class CollectOperator(StepOperator):
    """Collect the scores of a partition from the requests that an endpoint captured. Idempotent.

    The task is skipped, with the reason, if no row of the partition was captured. `ProfileOperator` takes `rows` and
    `version` of its Result.

    Args:
        dataset: dataset of the model (templated); by default the one in the model's parameters.
        model: registered model (templated).
        version: number or alias of the version that the variant served (templated).
        endpoint: EndpointName (templated).
        variant: VariantName (templated).
        captured: DestinationS3Uri of the endpoint's DataCaptureConfig (templated).
        partition: day, hour or month of the rows (templated), as for `IngestOperator`; by default the run's partition.
        first_day: first day (UTC) of the requests (templated); by default the day before the partition.
        last_day: last day (UTC) of the requests, included (templated); by default the day of the partition.

    Returns:
        `CollectResult`: table, partition, model_name, version, scored, changed, rows, requests, unreadable, invalid,
        other_days, reason.
    """

    step = "collect"
    fields = (
        "dataset",
        "model",
        "version",
        "endpoint",
        "variant",
        "captured",
        "partition",
        "first_day",
        "last_day",
    )

    def __init__(
        self,
        *,
        dataset: str = "",
        model: str,
        version: str = "champion",
        endpoint: str,
        variant: str | None = None,
        captured: str,
        partition: str = PARTITION,
        first_day: str | None = None,
        last_day: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model, self.version = dataset, model, version
        self.endpoint, self.variant, self.captured = endpoint, variant, captured
        self.partition, self.first_day, self.last_day = partition, first_day, last_day

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result; skip the task if no row was captured."""
        return skip_if_nothing_done(context, super().execute(context))
