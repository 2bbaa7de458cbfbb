"""The operator that runs the step `profile`."""

from __future__ import annotations

from typing import Any

from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator


class ProfileOperator(StepOperator):
    """Profile a scored partition: count its rows by bins. DriftSensor compares the counts of several days. Idempotent.

    The bins belong to the reference of the version that scored the rows, and were chosen for its training rows.

    Args:
        model: registered model (templated).
        version: version that scored the rows (templated).
        rows: Parquet file of the rows, as `ScoreOperator` returns it (templated).
        partition: day, hour or month of the rows (templated), as for `IngestOperator`; by default the run's partition.

    Returns:
        `ProfileResult`: partition, model_name, version, reference, rows, labelled, missing_columns, changed_types,
        empty, changed.
    """

    step = "profile"
    fields = ("model", "version", "rows", "partition")

    def __init__(
        self,
        *,
        model: str,
        version: str,
        rows: str,
        partition: str = PARTITION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model, self.version, self.rows = model, version, rows
        self.partition = partition
