"""Write the lake's newest values of the features of lookups to the online store, where the model server reads them.

Idempotent. The store keeps the newest value of each key, so a run for an older partition does not replace newer values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError
from pipelines.parameters import MAX_DAYS
from pipelines.partitions import Partition, PartitionKey
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.lake import Lake


class MaterializeSpec(Spec):
    """The lookups and the partition whose values are written."""

    dataset: str
    """Dataset with the lookups."""
    model: str = ""
    """Registered model, whose parameters name the dataset."""
    partition: PartitionKey | None = None
    """Published partition to write. Empty: the newest one, and each earlier one that is older by at most the lookup's
    `max_age`, because a lookup may still return its values."""
    ttl_days: int = Field(default=0, ge=0, le=MAX_DAYS)
    """Days from the start of a value's partition until the store deletes the value, in wall-clock time; 0: never. A
    value whose partition is older than this is deleted at once."""


class MaterializeResult(Result):
    """Values in the online store."""

    dataset: str
    """Dataset with the lookups."""
    partitions: list[PartitionKey]
    """Partitions that this call read, the newest first. The store has their values, or newer ones."""
    groups: dict[str, str]
    """Maps each lookup to the name of its feature group."""
    records: int = 0
    """Keys of all lookups in these partitions."""
    written: int = 0
    """Records that were written. The store had the values of the other records already, or newer ones."""


def _list_published_partitions(lake: Lake, dataset: Dataset, partition: Partition | None) -> list[Partition]:
    """List the published partitions, or only the one that is given."""
    from pipelines.scoring.predictions import require_published

    if partition is not None:
        require_published(lake, dataset, partition)
        return [partition]
    partitions = list(lake.count_rows_by_partition(dataset.table, dataset.partition))
    if not partitions:
        raise DataError(f"{dataset.table} has no partitions.", "Publish one first: `ingest`, then `validate`.")
    return partitions


def run(spec: MaterializeSpec) -> MaterializeResult:
    """Write the values of all lookups of the dataset.

    Raises:
        SpecError: the dataset has no lookups, a lookup is wrong, or no online store is configured. A retry cannot help.
        DataError: the partition is not published, or has several values for a key. A retry cannot help.
        ServiceError: the online store does not answer. What was written stays; a retry can help.
    """
    from pipelines.features.dependencies import find_key_types
    from pipelines.lake import Lake
    from pipelines.online.declarations import name_group, require_lookups
    from pipelines.online.materialize import list_newest_partitions, materialize
    from pipelines.online.store import OnlineStore

    dataset, lake = load_dataset(spec.dataset), Lake.open()
    lookups = require_lookups(dataset)
    published_partitions = _list_published_partitions(lake, dataset, spec.partition)
    row_schema, store = lake.read_schema(dataset.table), OnlineStore.open()
    for lookup in lookups:
        find_key_types(dataset, lookup, row_schema)  # raises SpecError before anything is written
    partitions_by_lookup = {lookup.name: list_newest_partitions(published_partitions, lookup) for lookup in lookups}
    records = written_records = 0
    for lookup in lookups:
        for partition in partitions_by_lookup[lookup.name]:
            count = materialize(lake, store, dataset, lookup, partition, spec.ttl_days)
            records, written_records = records + count.records, written_records + count.written_records
            log.info("%s %s, lookup %s: %d keys, %d written", dataset.name, partition, lookup.name, *count)
    partitions = sorted(set().union(*partitions_by_lookup.values()), reverse=True)
    groups = {lookup.name: name_group(dataset, lookup) for lookup in lookups}
    return MaterializeResult(
        dataset=dataset.name, partitions=partitions, groups=groups, records=records, written=written_records
    )
