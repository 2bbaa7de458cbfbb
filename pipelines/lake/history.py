"""Read which partition each snapshot of a table wrote, and the digest of its files; expire old snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy.exc import OperationalError

from pipelines.lake.commits import DIGEST_PROPERTY, PARTITION_PROPERTY
from pipelines.partitions import Partition, PartitionT, get_date, get_unit, parse_partition

MAX_SNAPSHOTS = 30
"""Smallest number of old snapshots at which `expire_old_snapshots` expires them."""


def find_oldest_equal_snapshot(table: Table, first: Partition, last: Partition) -> Snapshot | None:
    """Return the oldest snapshot since which no partition in `first`..`last` was written; None for an empty table."""
    snapshot = None
    for snapshot in _iterate_newest_first(table):
        if _may_have_written(snapshot, first, last):
            break
    return snapshot


def find_last_write(table: Table, partition: Partition) -> Snapshot | None:
    """Return the newest snapshot that may have written the partition; None if there is none."""
    snapshots = _iterate_newest_first(table)
    return next((snapshot for snapshot in snapshots if _may_have_written(snapshot, partition, partition)), None)


def find_partition_versions(table: Table, partitions: Collection[PartitionT]) -> dict[PartitionT, str]:
    """Return a text for each of `partitions`, which changes when the partition's rows change.

    The text is the digest of the files that the last write created; without a digest, the id of that write's snapshot.
    Partitions that no snapshot wrote are left out.
    """
    versions: dict[PartitionT, str] = {}
    for snapshot in _iterate_newest_first(table):
        for partition in partitions:
            if partition not in versions and _may_have_written(snapshot, partition, partition):
                versions[partition] = _read_property(snapshot, DIGEST_PROPERTY) or str(snapshot.snapshot_id)
        if len(versions) == len(partitions):
            break
    return versions


def find_digest(table: Table, partition: Partition) -> str | None:
    """Return the digest of the files that the partition's last write created; None if there is none."""
    snapshot = find_last_write(table, partition)
    return _read_property(snapshot, DIGEST_PROPERTY) if snapshot else None


def expire_old_snapshots(table: Table) -> None:
    """Expire all old snapshots if there are at least `MAX_SNAPSHOTS`. The last snapshot stays.

    Call it only for tables whose old snapshots nobody reads. It keeps commits fast: each commit copies and writes the
    table's metadata, which list all snapshots.
    """
    old_ids = [snapshot.snapshot_id for snapshot in table.snapshots()[:-1]]
    if len(old_ids) >= MAX_SNAPSHOTS:
        # CommitFailedException, OperationalError: another process commits now. The next writer expires the snapshots.
        # ValueError: another process has expired them.
        with suppress(CommitFailedException, OperationalError, ValueError):
            table.maintenance.expire_snapshots().by_ids(old_ids).commit()


def _iterate_newest_first(table: Table) -> Iterator[Snapshot]:
    """Yield the current snapshot, its parent, and so on."""
    snapshots_by_id = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        snapshot = snapshots_by_id.get(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None


def _may_have_written(snapshot: Snapshot, first: Partition, last: Partition) -> bool:
    """Return whether a commit may have written a partition in `first`..`last`.

    A commit without `PARTITION_PROPERTY` was made by another program, and may have written any partition.
    """
    text = _read_property(snapshot, PARTITION_PROPERTY)
    if text is None:
        return True
    partition = parse_partition(text)
    if get_unit(partition) == get_unit(first):
        return first <= partition <= last  # type: ignore[operator]
    return get_date(first) <= get_date(partition) <= get_date(last)


def _read_property(snapshot: Snapshot, name: str) -> str | None:
    return snapshot.summary.additional_properties.get(name) if snapshot.summary else None
