"""ValidateOperator."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset
from airflow.sdk.definitions.context import Context

from leeway.hooks.step.asset_events import emit_event, register_asset
from leeway.links.data_docs import DataDocsLink
from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator


class ValidateOperator(StepOperator):
    """Judges a staged partition by its suite in expectations/, sets bad rows aside, and publishes the others.

    A critical failure, or too many bad rows, publish nothing: the task fails without retries, its evidence is kept,
    and no asset event is emitted. The task's button "Data docs" leads to what was found, failed or not. Idempotent.

    Args:
        dataset: dataset whose partition is judged (templated).
        partition: day to judge, YYYY-MM-DD (templated); the run's partition where it is not given.
        suite: suite in expectations/ (templated); the one named as the dataset where it is not given.
        max_quarantined_fraction: largest share of the rows that may be set aside, 0 to 1 (templated); params.yaml's
            where it is not given.
        withdraw: whether what was published of the day before goes where it is refused (templated); params.yaml's where
            it is not given, else it stays.
        asset: gets an event where what is published changed, of the partition, with snapshot_id, rows, changed, changes
            and columns in its extra; none where it did not. Only in `outlets` it would get one always.

    Returns:
        `ValidateResult`: table, partition, rows, quarantined, evaluated, warnings, evidence, docs, snapshot_id,
            changed, changes, columns.
    """

    step = "validate"
    fields = ("dataset", "partition", "suite", "max_quarantined_fraction", "withdraw")
    operator_extra_links = (DataDocsLink(),)

    def __init__(
        self,
        *,
        dataset: str,
        partition: str = PARTITION,
        suite: str | None = None,
        max_quarantined_fraction: float | str | None = None,
        withdraw: bool | str | None = None,
        asset: Asset | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.partition, self.suite, self.asset = dataset, partition, suite, asset
        self.max_quarantined_fraction, self.withdraw = max_quarantined_fraction, withdraw
        if asset:
            register_asset(self, asset)

    def execute(self, context: Context) -> Any:
        """The step's Result."""
        result = super().execute(context)
        if self.asset:
            day = result["partition"]
            told = emit_event(context, self.asset, day, result, key=day)
            self.log.info("%s of %s: %s", self.asset.name, day, "an event" if told else "announced before, so no event")
        return result
