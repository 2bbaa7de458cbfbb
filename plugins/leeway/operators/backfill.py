"""The operator that runs the step `backfill`."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset
from airflow.sdk.definitions.context import Context

from leeway.hooks.step.asset_events import prepare_event, register_asset
from leeway.operators.step import StepOperator, drop_empty_field


class BackfillOperator(StepOperator):
    """Ingest, validate and publish many days in one task, for datasets with few rows a day. Idempotent.

    If validation refuses a day, the task fails at its end, without retries; the other days are published.

    Args:
        dataset: dataset of the days (templated).
        first: first partition, in the dataset's unit: a day, an hour (YYYY-MM-DDTHH) or a month (YYYY-MM) (templated).
        last: last partition, included (templated).
        include_published: whether to ingest published days again (templated).
        allow_shrink: whether to publish days that have fewer rows than their published version, or whose rows
            end earlier in the day than those of the published days around them (templated); by default params.yaml
            decides.
        on_absent: what to do about days that the source does not have: `fail` or `skip` (templated).
        source_conn_id: Airflow connection of the source; the step gets its credentials as environment variables
            (docs/how-to/ingestion.md).
        asset: gets an event if the published rows changed. The event's extra has FIRST..LAST as `partition`.

    Returns:
        `BackfillResult`: published, changed, skipped, absent, snapshot_id.
    """

    step = "backfill"
    fields = ("dataset", "first", "last", "include_published", "allow_shrink", "on_absent")

    def __init__(
        self,
        *,
        dataset: str,
        first: str,
        last: str,
        include_published: bool | str = False,
        allow_shrink: bool | str | None = None,
        on_absent: str = "fail",
        source_conn_id: str | None = None,
        asset: Asset | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.first, self.last = dataset, first, last
        self.include_published, self.on_absent = include_published, on_absent
        self.allow_shrink = allow_shrink
        self.asset, self.source_conn_id = asset, source_conn_id
        if asset:
            register_asset(self, asset)

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec, without `allow_shrink` if it is not set: then params.yaml decides."""
        return drop_empty_field(super().build_spec(), "allow_shrink")

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result."""
        result = super().execute(context)
        if self.asset:
            prepare_event(context, self.asset, f"{self.first}..{self.last}", result)
        return result
