"""Read from the snapshots of a table which partition each snapshot wrote, and the digest of its files."""

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
"""Number of old snapshots at which all of them are expired."""


def find_oldest_equal_snapshot(table: Table, first: Partition, last: Partition) -> Snapshot | None:
    """Return the oldest snapshot whose partitions `first`..`last` equal the current ones; None for an empty table."""
    snapshot = None
    for snapshot in _iterate_newest_first(table):
        if _may_have_written(snapshot, first, last):
            break
    return snapshot


def find_last_write(table: Table, day: Partition) -> Snapshot | None:
    """Return the newest snapshot that may have written the partition."""
    snapshots = _iterate_newest_first(table)
    return next((snapshot for snapshot in snapshots if _may_have_written(snapshot, day, day)), None)


def find_versions(table: Table, days: Collection[PartitionT]) -> dict[PartitionT, str]:
    """Return the version of each of `days`: the digest of its files, or the snapshot id if there is no digest.

    Days that no snapshot wrote are left out.
    """
    versions: dict[PartitionT, str] = {}
    for snapshot in _iterate_newest_first(table):
        for day in days:
            if day not in versions and _may_have_written(snapshot, day, day):
                versions[day] = _read_property(snapshot, DIGEST_PROPERTY) or str(snapshot.snapshot_id)
        if len(versions) == len(days):
            break
    return versions


def find_digest(table: Table, day: Partition) -> str | None:
    """Return the digest of the files that the last write of the partition created; None if that write has no digest."""
    snapshot = find_last_write(table, day)
    return _read_property(snapshot, DIGEST_PROPERTY) if snapshot else None


def expire_old_snapshots(table: Table) -> None:
    """Expire all old snapshots if there are at least `MAX_SNAPSHOTS`. The last snapshot stays.

    Call it only for tables whose old snapshots nobody reads. pyiceberg 0.12 copies the metadata 19 times in
    each commit, so commits would become slower with each snapshot.
    """
    old_ids = [snapshot.snapshot_id for snapshot in table.snapshots()[:-1]]
    if len(old_ids) >= MAX_SNAPSHOTS:
        # If another process commits in between, the next writer expires them. ValueError: they have expired already.
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

    A commit without the property was made by another program, and may have written any partition.
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
