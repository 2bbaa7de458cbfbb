"""SyncOperator."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset
from airflow.sdk.definitions.context import Context

from leeway.operators.step import StepOperator

WATERMARK = "watermark"
"""Key in the asset's state store."""


class SyncOperator(StepOperator):
    """Stages what changed in a source without partitions since the last sync. Idempotent.

    The watermark lives in the asset's state store, and moves after the last commit: a task that was killed repeats, and
    loses nothing. Two at once would overwrite one another: let the DAG have one active run.
    A ValidateOperator mapped over the result's partitions publishes the days; see docs/how-to/ingestion.md.

    Args:
        dataset: package under pipelines/ that holds the source (templated).
        asset: the staging table; its state store keeps the watermark. It gets no event.
        folder: folder of the source's files (templated); the source's own place where it is not given.
        source_conn_id: Airflow connection whose credentials the step gets in its environment
            (docs/how-to/ingestion.md).

    Returns:
        `SyncResult`: table, rows, watermark, partitions, changed.
    """

    step = "sync"
    fields = ("dataset", "folder")

    def __init__(
        self,
        *,
        dataset: str,
        asset: Asset,
        folder: str | None = None,
        source_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.asset, self.folder = dataset, asset, folder
        self.source_conn_id = source_conn_id
        # An inlet: that gives access to the asset's state store, and emits nothing.
        self.inlets = [*self.inlets, asset]

    def execute(self, context: Context) -> Any:
        """The step's Result."""
        state = context["asset_state_store"][self.asset]
        result = self.run_step(self.step, {**self.spec(), WATERMARK: state.get(WATERMARK) or ""})
        if result[WATERMARK]:
            state.set(WATERMARK, result[WATERMARK])
        return result
