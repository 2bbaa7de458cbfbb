"""The operator that runs the step `ingest`."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator

PARTITION = "{{ partition_key or (ds | default('')) }}"
"""Template of the run's partition: its partition key, or else its logical date. For a run that has neither, the result
is an empty text, which the steps refuse."""
HOUR = "{{ (partition_key or (ts | default('')))[:13] }}"
"""Template of the run's hour, YYYY-MM-DDTHH: the argument `partition` of operators if a dataset's partitions are hours.
"""
MONTH = "{{ (partition_key or (ds | default('')))[:7] }}"
"""Template of the run's month, YYYY-MM: the argument `partition` of operators if a dataset's partitions are months."""


class IngestOperator(StepOperator):
    """Read one partition of a dataset from its source into the staging table. Idempotent.

    Args:
        dataset: dataset to ingest (templated).
        partition: day, hour (YYYY-MM-DDTHH) or month (YYYY-MM) to stage (templated); by default the run's partition
            key, or the day of its logical date. If partitions are hours or months, use `HOUR` or `MONTH` of this
            module: a manual run has no partition key, so the default would be a day.
        folder: folder of the source's files (templated); by default the source's default folder.
        source_conn_id: Airflow connection of the source; the step gets its credentials as environment variables
            (docs/how-to/ingestion.md).

    Returns:
        `IngestResult`: table, partition, rows, snapshot_id, changed, new, changes, columns.
    """

    step = "ingest"
    fields = ("dataset", "partition", "folder")

    def __init__(
        self,
        *,
        dataset: str,
        partition: str = PARTITION,
        folder: str | None = None,
        source_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.partition, self.folder = dataset, partition, folder
        self.source_conn_id = source_conn_id
