"""The operator that runs the step `sync`."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset
from airflow.sdk.definitions.context import Context

from leeway.operators.step import StepOperator

WATERMARK = "watermark"
"""Field of the step's spec and Result, and key in the asset's state store."""


class SyncOperator(StepOperator):
    """Ingest the changes of a source since the last sync, incrementally by cursor. Idempotent.

    Use it for sources without partitions. The watermark, the largest cursor that was read, is stored in the asset's
    state store after the last commit. So if a task is killed, the next try reads some rows again, and misses none. Set
    the DAG's max_active_runs to 1: of two runs at the same time on one machine, one fails; two runs on different
    machines would overwrite each other's rows. A
    ValidateOperator that is mapped over the result's partitions publishes the days; see docs/how-to/ingestion.md.

    Args:
        dataset: dataset to ingest (templated).
        asset: asset of the staging table. Its state store has the watermark. It gets no event.
        folder: folder of the source's files (templated); by default the source's default folder.
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
        # An inlet gives access to the asset's state store, and emits no event.
        self.inlets = [*self.inlets, asset]

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result."""
        store = context["asset_state_store"][self.asset]
        result = self.run_step(self.step, {**self.build_spec(), WATERMARK: store.get(WATERMARK) or ""})
        if result[WATERMARK]:
            store.set(WATERMARK, result[WATERMARK])
        return result
