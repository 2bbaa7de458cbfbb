"""A table's snapshots, as the partitions that they wrote."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from contextlib import suppress

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy.exc import OperationalError

from pipelines.lake.commits import DIGEST_PROPERTY, PARTITION_PROPERTY

MAX_SNAPSHOTS = 30


def find_pin(table: Table, first: dt.date, last: dt.date) -> Snapshot | None:
    """The oldest snapshot since which no partition in `first`..`last` was written; None where there is none at all."""
    chosen = None
    for chosen in _iterate_newest_first(table):
        if _may_have_written(chosen, first, last):
            break
    return chosen


def find_last_write(table: Table, day: dt.date) -> Snapshot | None:
    """The newest snapshot that may have written the partition."""
    return next((one for one in _iterate_newest_first(table) if _may_have_written(one, day, day)), None)


def find_versions(table: Table, days: Collection[dt.date]) -> dict[dt.date, str]:
    """Of each of `days` what it was last written with: the digest of the files, or the snapshot where that has none.

    Days that no snapshot wrote are left out.
    """
    found: dict[dt.date, str] = {}
    for one in _iterate_newest_first(table):
        for day in days:
            if day not in found and _may_have_written(one, day, day):
                found[day] = _read_property(one, DIGEST_PROPERTY) or str(one.snapshot_id)
        if len(found) == len(days):
            break
    return found


def find_digest(table: Table, day: dt.date) -> str | None:
    """The digest of the files that the partition was last written with; None where that is not known."""
    last = find_last_write(table, day)
    return _read_property(last, DIGEST_PROPERTY) if last else None


def forget_snapshots(table: Table) -> None:
    """The table has one snapshot again, where there were many: for tables whose history is in their rows.

    pyiceberg 0.12 copies the metadata 19 times a commit, so that one would take longer and longer.
    """
    old = [one.snapshot_id for one in table.snapshots()[:-1]]
    if len(old) >= MAX_SNAPSHOTS:
        # Others commit: the next writer forgets. ValueError: another process has forgotten them first.
        with suppress(CommitFailedException, OperationalError, ValueError):
            table.maintenance.expire_snapshots().by_ids(old).commit()


def _iterate_newest_first(table: Table) -> Iterator[Snapshot]:
    """The current snapshot and those before it."""
    known = {one.snapshot_id: one for one in table.snapshots()}
    one = table.current_snapshot()
    while one is not None:
        yield one
        one = known.get(one.parent_snapshot_id) if one.parent_snapshot_id else None


def _may_have_written(snapshot: Snapshot, first: dt.date, last: dt.date) -> bool:
    """Whether a commit wrote into the window. One without our mark is somebody else's: it may have."""
    mark = _read_property(snapshot, PARTITION_PROPERTY)
    return mark is None or first <= dt.date.fromisoformat(mark) <= last


def _read_property(snapshot: Snapshot, name: str) -> str | None:
    return snapshot.summary.additional_properties.get(name) if snapshot.summary else None
