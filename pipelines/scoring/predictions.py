"""Define columns of the tables of predictions and outcomes, and functions that the steps `score` and `outcomes` share.

Both tables have one row for each key and model version. A write to the table of outcomes replaces the rows of one
partition and model; a write to the table of predictions, those of one partition and model version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pipelines.dataset import Dataset
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.partitions import Partition, check_partition
from pipelines.system.log import log

SCORE, MODEL, VERSION, SCORED_AT, LABEL = "score", "model_name", "model_version", "scored_at", "label"
T = TypeVar("T")


def name_request_outcomes(dataset: Dataset) -> str:
    """Return the name of the table that joins the scores in an endpoint's answers to the labels that are known."""
    return f"{dataset.name}_request_outcomes"


def require_published(lake: Lake, dataset: Dataset, partition: Partition) -> None:
    """Check that the partition has rows to score.

    Raises:
        SpecError: the dataset has no label, so there is nothing to predict, or the partition does not have the unit of
            the dataset's partitions. A retry cannot help.
        DataError: the partition is not published. A retry can help after it is published.
    """
    if not dataset.label:
        raise SpecError(f"the dataset {dataset.name} has no label: there is nothing to predict.")
    check_partition(dataset, partition)
    if not lake.count_rows_of_partitions(dataset.table, [partition]):
        raise DataError(
            f"{dataset.table} has no partition {partition}.", "Publish it first: `ingest`, then `validate`."
        )


def repeat_until_current(lake: Lake, tables: Sequence[str], partition: Partition, work: Callable[[], T]) -> T:
    """Run `work`; repeat it if another process rewrote the partition in one of the tables while `work` ran.

    If two processes work on the same partition, the process that ends last has read the newest rows. So no results of
    older rows remain.

    Returns:
        What the last call of `work` returned.
    """
    while True:
        snapshot_ids = [lake.pin_window(table, partition, partition) for table in tables]
        result = work()
        if [lake.pin_window(table, partition, partition) for table in tables] == snapshot_ids:
            return result
        log.info("another process rewrote %s %s: the rows are read again", " or ".join(tables), partition)
