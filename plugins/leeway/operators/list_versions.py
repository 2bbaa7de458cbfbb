"""The operator that runs the step `list_versions`."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.context import Context

from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator, drop_empty_field


class ListVersionsOperator(StepOperator):
    """List the versions that an endpoint may have served on the days of a partition's requests. Idempotent.

    The task's XCom is the list of versions alone, so that the tasks after it can be mapped over it:
    `expand(version=versions.output)`. On the day of a release, the list has several versions: the one that served
    before, the new one, and a canary that was rolled back. If the list is empty, the mapped tasks are skipped.

    Args:
        dataset: dataset of the model (templated); by default the one in the model's parameters.
        model: registered model (templated).
        version: number or alias of the only version to list (templated); by default the versions that were deployed.
        endpoint: EndpointName (templated); by default the one that DeployOperator gives the model.
        partition: day, hour or month of the rows (templated), as for `IngestOperator`; by default the run's partition.
        first_day: first day (UTC) of the requests (templated); by default the day before the partition.
        last_day: last day (UTC) of the requests, included (templated); by default the last day of the partition.

    Returns:
        The field `versions` alone, not the whole `ListVersionsResult`: endpoint, versions.
    """

    step = "list_versions"
    fields = ("dataset", "model", "version", "endpoint", "partition", "first_day", "last_day")

    def __init__(
        self,
        *,
        dataset: str = "",
        model: str,
        version: str = "",
        endpoint: str | None = None,
        partition: str = PARTITION,
        first_day: str | None = None,
        last_day: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model, self.version, self.endpoint = dataset, model, version, endpoint
        self.partition, self.first_day, self.last_day = partition, first_day, last_day

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec, without `version`, `first_day` and `last_day` where these are empty."""
        spec = super().build_spec()
        for name in ("version", "first_day", "last_day"):
            spec = drop_empty_field(spec, name)
        return spec

    def execute(self, context: Context) -> list[str]:
        """Run the step and return the versions."""
        return list(super().execute(context)["versions"])
