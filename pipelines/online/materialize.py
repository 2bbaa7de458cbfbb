"""Write the lake's values of looked-up features to the online store, so that it has the newest value of each key.

The event time of a record is the start of its partition, plus some milliseconds: the sequence number of the last
write of the partition. So a record of a later partition is newer, whenever it was written, and a later write of the
same partition gives newer records than an earlier write. The store keeps the record with the newest event time. So the
order of runs does not matter: an interrupted run, concurrent runs, and a backfill of an old day all end with the same
records.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from pipelines.container.serving.online_records import Record
from pipelines.container.serving.values import format_values, iterate_identifiers
from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features import building, engines
from pipelines.features.columns import KEY_PREFIX
from pipelines.lake import Lake
from pipelines.lake.catalog import load_table
from pipelines.lake.history import find_oldest_equal_snapshot
from pipelines.lookups import Lookup
from pipelines.online.store import OnlineStore
from pipelines.partitions import Partition, get_begin, get_date
from pipelines.window import Days

MAX_SEQUENCE_NUMBER = dt.timedelta(hours=1) // dt.timedelta(milliseconds=1)
"""Largest sequence number of a commit. With a larger one, a record would seem to be of the next hour."""
WRITERS = 8
"""Number of threads that write records."""
BATCH_RECORDS = 1_000
"""Number of records that are read from the store in one call."""


class RecordCounts(NamedTuple):
    """Numbers of records of a lookup in a partition."""

    records: int
    """Number of keys in the partition."""
    written_records: int
    """Number of records that were written. A record is not written if the store has an equal or newer one."""


def materialize(
    lake: Lake, store: OnlineStore, dataset: Dataset, lookup: Lookup, partition: Partition, ttl_days: int
) -> RecordCounts:
    """Write the values of a lookup in a partition to the store, unless the store has newer ones. Idempotent.

    A partition that is not published has no records, so nothing is written.

    Raises:
        DataError: the dataset has no published table, a key has several values in the partition, or the table has too
            many commits. A retry cannot help.
        ServiceError: the store does not answer. Records that were written stay. A retry can help.
    """
    group, records = store.create_group(dataset, lookup), read_records(lake, dataset, lookup, partition)
    written_count = 0
    with ThreadPoolExecutor(WRITERS, thread_name_prefix="materialize") as pool:
        for begin in range(0, len(records), BATCH_RECORDS):
            identifiers = list(records)[begin : begin + BATCH_RECORDS]
            stored_records = store.read({group: identifiers})
            changed_identifiers = [
                identifier
                for identifier in identifiers
                if not _is_up_to_date(stored_records.get((group, identifier)), records[identifier])
            ]
            writes = pool.map(
                lambda identifier: store.write(group, identifier, records[identifier], ttl_days), changed_identifiers
            )
            written_count += len(list(writes))
    return RecordCounts(len(records), written_count)


def _is_up_to_date(stored_record: Record | None, record: Record) -> bool:
    return stored_record is not None and stored_record.event_time >= record.event_time


def read_records(lake: Lake, dataset: Dataset, lookup: Lookup, partition: Partition) -> dict[str, Record]:
    """Return the records of a lookup in a partition, by identifier. A row without a complete key has no record.

    Raises:
        DataError: the dataset has no published table, a key has several values in the partition, or the table has too
            many commits. A retry cannot help.
    """
    sequence_number = None
    # The records are built again, if another process wrote the partition meanwhile: its last write has another number.
    while sequence_number != (sequence_number := _find_sequence_number(lake, dataset.table, partition)):
        if sequence_number > MAX_SEQUENCE_NUMBER:
            raise DataError(f"table {dataset.table} has more than {MAX_SEQUENCE_NUMBER} commits: event times overlap.")
        event_time = get_begin(partition) + dt.timedelta(milliseconds=sequence_number)
        records = _build_records(lake, dataset, lookup, partition, event_time)
    return records


def _find_sequence_number(lake: Lake, table: str, partition: Partition) -> int:
    """Return the sequence number of the last write of a partition. Later writes to the table have larger numbers."""
    snapshot = find_oldest_equal_snapshot(load_table(lake.catalog, table), partition, partition)
    return int((snapshot and snapshot.sequence_number) or 0)


def _build_records(
    lake: Lake, dataset: Dataset, lookup: Lookup, partition: Partition, event_time: dt.datetime
) -> dict[str, Record]:
    records: dict[str, Record] = {}
    for identifier, values in _read_values(lake, dataset, lookup, partition):
        if identifier in records and records[identifier].values != values:
            names = [name for name in lookup.features if records[identifier].values.get(name) != values.get(name)]
            message = f"{partition}: the key {identifier} has several values of {', '.join(names)}"
            raise DataError(f"{message}.", f"Correct the key of the lookup {lookup.name!r} of {dataset.name}.")
        records[identifier] = Record(event_time, values)
    return records


def _read_values(
    lake: Lake, dataset: Dataset, lookup: Lookup, partition: Partition
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the identifier and the feature values of each distinct row. Scoring computes the same values."""
    with (
        lake.open_files(dataset.table, partition, partition) as (paths, columns),
        engines.open_engine("duckdb", paths, columns) as engine,
    ):
        day, key_columns = get_date(partition), [f"{KEY_PREFIX}{name}" for name in lookup.key]
        for batch in engine(partial(building.build_lookup_values, dataset, lookup), Days(day, day)):
            values = batch.select(list(lookup.features)).to_pylist()
            for identifier, row in zip(iterate_identifiers(key_columns, batch), values, strict=True):
                if identifier:
                    yield identifier, format_values(row)


def list_newest_partitions(published_partitions: Sequence[Partition], lookup: Lookup) -> list[Partition]:
    """List the published partitions that are at most `lookup.max_age` older than the newest one, newest first.

    Args:
        published_partitions: at least one partition.
        lookup: the lookup.
    """
    newest_partition = max(published_partitions, key=get_begin)
    begin = get_begin(newest_partition) - lookup.max_age
    return sorted((item for item in published_partitions if get_begin(item) >= begin), key=get_begin, reverse=True)
