"""Withdraw a published partition whose rows turned out to be wrong, and record who did it and why. Idempotent.

The rows and the outcomes of their labels are removed; older snapshots of the lake still have them. The decision is
stored as a validation that failed. So the data docs, drift and the guards of trainings treat the partition as refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, list_datasets, load_dataset
from pipelines.errors import DataError
from pipelines.partitions import Partition, PartitionKey, check_partition
from pipelines.settings import get_actor, settings
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.lake import Lake


class WithdrawSpec(Spec):
    """The partition, and why it is withdrawn."""

    dataset: str
    """Dataset whose published partition is withdrawn."""
    partition: PartitionKey
    """Partition to withdraw: a day (YYYY-MM-DD), an hour (YYYY-MM-DDTHH) or a month (YYYY-MM), depending on the
    dataset."""
    why: str = Field(min_length=1, pattern=r"\S")
    """The reason; it is recorded."""


class WithdrawResult(Result):
    """A partition that is not published any more."""

    table: str
    """Table that has no rows of the partition now."""
    partition: PartitionKey
    """Partition that was withdrawn."""
    rows: int
    """Rows that were removed."""
    who: str
    """Person or process that made this call; if `changed` is false, another one may have withdrawn the partition."""
    docs: str
    """Address of the partition's page in the data docs."""
    changed: bool
    """Whether this call withdrew the partition; false if it was withdrawn before."""


def run(spec: WithdrawSpec) -> WithdrawResult:
    """Record the withdrawal, then remove the published rows of the partition and the outcomes of their labels.

    A later run of `validate` for the partition publishes it again, if its rows pass. So correct the source, or add an
    expectation that such rows fail.

    Raises:
        DataError: nothing of the partition is published, and it was not withdrawn. A retry cannot help.
        SpecError: the partition is not of the dataset's unit, or the dataset uses the rows of another one. A retry
            cannot help.
        ConflictError: other processes kept the catalog busy. A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.validation import datadocs, results_table, withdrawal
    from pipelines.validation.quarantine import Outcome

    dataset, lake, actor = load_dataset(spec.dataset), Lake.open(), get_actor()
    dataset.require_own_days()
    check_partition(dataset, spec.partition)
    rows = lake.count_rows_of_partitions(dataset.table, [spec.partition]).get(spec.partition, 0)
    if rows:
        outcome = Outcome("blocked", rows, bad_rows=0, max_quarantined_fraction=0.0)
        judgement = withdrawal.build_judgement(actor, spec.why)
        datadocs.add_run(results_table.store_results(lake, dataset.name, spec.partition, judgement, outcome))
    elif not withdrawal.is_withdrawn(lake, dataset, spec.partition):
        message = f"{dataset.table} has no published rows of {spec.partition}: there is nothing to withdraw."
        raise DataError(message, "See `python -m pipelines status --json`, or the data docs.")
    remove_published_rows(lake, dataset, spec.partition)
    docs = settings().build_docs_url(dataset.name, str(spec.partition))
    return WithdrawResult(
        table=dataset.table, partition=spec.partition, rows=rows, who=actor, docs=docs, changed=rows > 0
    )


def remove_published_rows(lake: Lake, dataset: Dataset, partition: Partition) -> int:
    """Remove the published rows of a partition and the outcomes of their labels; return the number of rows.

    Older snapshots still have both. Idempotent.

    Raises:
        ConflictError: other processes kept the catalog busy. A retry can help.
    """
    from pipelines.scoring.predictions import name_request_outcomes

    rows = lake.count_rows_of_partitions(dataset.table, [partition]).get(partition, 0)
    if rows:
        lake.clear_partition(dataset.table, partition)
        log.warning("%s %s: %d rows withdrawn", dataset.table, partition, rows)
    # The outcomes are removed even if no rows are published: an earlier run may have been killed before this line.
    # They are removed last, because the step `outcomes` may be running.
    for other_dataset in map(load_dataset, list_datasets()):
        if other_dataset.table == dataset.table:
            lake.clear_partition(other_dataset.outcomes, partition)
            lake.clear_partition(name_request_outcomes(other_dataset), partition)
    return rows
