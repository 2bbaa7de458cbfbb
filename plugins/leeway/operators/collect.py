"""The operator that runs the step `collect`."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator, drop_empty_field, skip_if_nothing_done
from pipelines.serving.endpoint_resources import build_capture_uri

VERSION_PLACEHOLDER = "{version}"
"""Part of `captured` that the step replaces by the number of the version."""


class CollectOperator(StepOperator):
    """Collect the scores of a partition from the requests that an endpoint captured. Idempotent.

    The task is skipped, with the reason, if no version was deployed to the endpoint, or no row of the partition was
    captured. `ProfileOperator` and `SkewOperator` get `rows` and `version` from its Result.

    Args:
        dataset: dataset of the model (templated); by default the one in the model's parameters.
        model: registered model (templated).
        version: number or alias of the version that the variant served (templated); by default the version
            that was deployed last to the endpoint, up to `last_day`.
        endpoint: EndpointName (templated); by default the one that DeployOperator gives the model.
        variant: VariantName (templated).
        captured: DestinationS3Uri of the endpoint's DataCaptureConfig, with `{version}` for the number of the version
            (templated); by default the one that DeployOperator sets, in the bucket LEEWAY_BUCKET.
        partition: day, hour or month of the rows (templated), as for `IngestOperator`; by default the run's partition.
        first_day: first day (UTC) of the requests (templated); by default the day before the partition.
        last_day: last day (UTC) of the requests, included (templated); by default the last day of the partition.

    Returns:
        `CollectResult`: table, partition, model_name, version, endpoint, scored, changed, rows, requests, unreadable,
        invalid, rows_of_other_partitions, reason.
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
        version: str = "",
        endpoint: str | None = None,
        variant: str | None = None,
        captured: str = "",
        partition: str = PARTITION,
        first_day: str | None = None,
        last_day: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model, self.version = dataset, model, version
        self.endpoint, self.variant, self.captured = endpoint, variant, captured
        self.partition, self.first_day, self.last_day = partition, first_day, last_day

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec, without `version`, `first_day` and `last_day` if they are empty.

        Raises:
            AirflowFailException: neither `captured` nor LEEWAY_BUCKET is set. A retry cannot help.
        """
        spec = super().build_spec()
        for name in ("version", "first_day", "last_day"):
            spec = drop_empty_field(spec, name)
        if self.captured:
            return spec
        if bucket := os.environ.get("LEEWAY_BUCKET"):
            return {**spec, "captured": build_capture_uri(bucket, "leeway", VERSION_PLACEHOLDER)}
        raise AirflowFailException(f"give captured= to the task {self.task_id}, or set LEEWAY_BUCKET.")

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result; skip the task if there is no row."""
        return skip_if_nothing_done(context, super().execute(context))
