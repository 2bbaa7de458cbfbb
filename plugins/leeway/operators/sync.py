"""SyncOperator."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset
from airflow.sdk.definitions.context import Context

from leeway.operators.step import StepOperator

WATERMARK = "watermark"
"""Key of the cursor in the asset's state store."""


class SyncOperator(StepOperator):
    """Ingest what changed since the last sync in a source without partitions, incrementally by cursor. Idempotent.

    The cursor (watermark) is kept in the asset's state store, and moves after the last commit, so a task that was
    killed repeats work and loses nothing. Two runs at once would overwrite each other: set the DAG's max_active_runs to
    1. A ValidateOperator that is mapped over the result's partitions publishes the days; see docs/how-to/ingestion.md.

    Args:
        dataset: dataset to ingest (templated).
        asset: the staging table; its state store has the watermark. It gets no event.
        folder: folder of the source's files (templated); by default the source's own place.
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
        # An inlet gives access to the asset's state store, and emits nothing.
        self.inlets = [*self.inlets, asset]

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result."""
        state = context["asset_state_store"][self.asset]
        result = self.run_step(self.step, {**self.build_spec(), WATERMARK: state.get(WATERMARK) or ""})
        if result[WATERMARK]:
            state.set(WATERMARK, result[WATERMARK])
        return result
