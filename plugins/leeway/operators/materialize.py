"""The operator that runs the step `materialize`."""

from __future__ import annotations

from typing import Any

from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator, drop_empty_field


class MaterializeOperator(StepOperator):
    """Write the values of a published partition's looked-up features to the online store. Idempotent.

    The store keeps the newest value of each key, whatever the order of the runs: they may be repeated, overlap, or be a
    backfill.

    Args:
        dataset: dataset with the lookups (templated); by default the one in the model's parameters.
        model: registered model (templated).
        partition: day, hour or month to write (templated), as for `IngestOperator`; by default the run's partition. If
            empty: the newest partition, and earlier partitions whose values are not too old.
        ttl_days: days from the start of a partition until the store deletes its values (templated); 0: never.

    Returns:
        `MaterializeResult`: dataset, partitions, groups, records, written.
    """

    step = "materialize"
    fields = ("dataset", "model", "partition", "ttl_days")

    def __init__(
        self,
        *,
        dataset: str = "",
        model: str,
        partition: str = PARTITION,
        ttl_days: int | str = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model = dataset, model
        self.partition, self.ttl_days = partition, ttl_days

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec, without `partition` if it is empty."""
        return drop_empty_field(super().build_spec(), "partition")
