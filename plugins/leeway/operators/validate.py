"""The operator that runs the step `validate`."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset
from airflow.sdk.definitions.context import Context

from leeway.hooks.step.asset_events import prepare_event, register_asset
from leeway.links.data_docs import DataDocsLink
from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator, drop_empty_field


class ValidateOperator(StepOperator):
    """Validate a staged partition by its suite in expectations/, quarantine bad rows, and publish the others.

    If a critical expectation fails, or if there are too many bad rows, nothing is published: the task fails without
    retries, the results are stored, and there is no asset event. The task's button "Data docs" opens the results, even
    if the task failed. Idempotent.

    Args:
        dataset: dataset whose partition is validated (templated).
        partition: day, hour or month to validate (templated), as for `IngestOperator`; by default the run's partition.
        suite: suite in expectations/ (templated); by default the one with the dataset's name.
        max_quarantined_fraction: largest share of the rows that may be quarantined, 0 to 1 (templated); by default
            params.yaml decides.
        engine: engine that evaluates the suite: `duckdb`, or `gx`, Great Expectations itself (templated); by default
            params.yaml decides.
        verify_share: share of the partitions that both engines evaluate, 0 to 1 (templated). If the engines differ, the
            task fails and nothing is published. By default params.yaml decides.
        withdraw: whether to remove the rows of a refused day that were published before (templated); by default
            params.yaml decides.
        allow_shrink: whether to publish a day that has fewer rows than its published version, or whose rows end
            earlier in the day than those of the published days around it (templated); by default params.yaml decides.
        asset: gets an event of the partition if the published rows changed. The event's extra has snapshot_id, rows,
            changed, changes and columns. An asset that is only in `outlets` would get an event at each success.

    Returns:
        `ValidateResult`: table, partition, rows, quarantined, evaluated, warnings, evidence, engine, verified,
            docs, snapshot_id, changed, changes, columns.
    """

    step = "validate"
    fields = (
        *("dataset", "partition", "suite", "max_quarantined_fraction"),
        *("engine", "verify_share", "withdraw", "allow_shrink"),
    )
    operator_extra_links = (DataDocsLink(),)

    def __init__(
        self,
        *,
        dataset: str,
        partition: str = PARTITION,
        suite: str | None = None,
        max_quarantined_fraction: float | str | None = None,
        engine: str | None = None,
        verify_share: float | str | None = None,
        withdraw: bool | str | None = None,
        allow_shrink: bool | str | None = None,
        asset: Asset | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.partition, self.suite, self.asset = dataset, partition, suite, asset
        self.max_quarantined_fraction, self.withdraw = max_quarantined_fraction, withdraw
        self.engine, self.verify_share = engine, verify_share
        self.allow_shrink = allow_shrink
        if asset:
            register_asset(self, asset)

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec, without `allow_shrink` if it is not set: then params.yaml decides."""
        return drop_empty_field(super().build_spec(), "allow_shrink")

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result."""
        result = super().execute(context)
        if self.asset:
            partition = result["partition"]
            has_event = prepare_event(context, self.asset, partition, result, partition_key=partition)
            outcome = "this task emits an event" if has_event else "no event, because this version had one before"
            self.log.info("asset %s, %s: %s", self.asset.name, partition, outcome)
        return result
