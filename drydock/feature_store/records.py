"""Store the newest record of each identifier of a feature group in the server's SQLite file: the online store."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from drydock.feature_store.values import MICROSECONDS
from drydock.resources import Owner
from drydock.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS feature_records (
    account TEXT, region TEXT, feature_group TEXT, identifier TEXT,
    event_time INTEGER, expires_at INTEGER, content TEXT,
    PRIMARY KEY (account, region, feature_group, identifier)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS feature_records_by_expiry ON feature_records (expires_at) WHERE expires_at IS NOT NULL;
"""
_IN_GROUP = "account = ? AND region = ? AND feature_group = ?"


@dataclass(frozen=True)
class StoredRecord:
    """A record that is neither deleted nor expired.

    Attributes:
        values: The values by the features' names, in the order of the request that wrote them.
        expires_at: When the record expires, in microseconds since 1970; None for never.
    """

    values: dict[str, str]
    expires_at: int | None


class FeatureRecords:
    """The records of all feature groups. A deleted record leaves its event time, so that no older record is stored.

    Args:
        store: The server's storage.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        store.create_tables(SCHEMA)

    def put(
        self,
        owner: Owner,
        group: str,
        identifier: str,
        event_time: int,
        values: dict[str, str] | None,
        expires_at: int | None = None,
    ) -> bool:
        """Store a record in place of an older one. Idempotent.

        Args:
            owner: Account and region of the group.
            group: Name of the group.
            identifier: The record's identifier.
            event_time: The record's event time, microseconds since 1970.
            values: The record's values; None to delete the record, and to store only the event time.
            expires_at: When the record expires, microseconds since 1970; None for never.

        Returns:
            Whether the record was stored. False if the stored record is as new or newer; it stays. False also if the
            new record has expired already; then an older stored record is deleted.
        """
        key, now = (owner.account_id, owner.region, group), _read_clock()
        content = None if values is None else json.dumps(values)
        with self._store.transaction() as db:
            db.execute("DELETE FROM feature_records WHERE expires_at <= ?", (now,))
            if expires_at is not None and expires_at <= now:
                condition = f"{_IN_GROUP} AND identifier = ? AND event_time < ?"
                db.execute(f"DELETE FROM feature_records WHERE {condition}", (*key, identifier, event_time))  # noqa: S608
                return False
            cursor = db.execute(
                "INSERT INTO feature_records VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "event_time = excluded.event_time, expires_at = excluded.expires_at, content = excluded.content "
                "WHERE excluded.event_time > event_time",
                (*key, identifier, event_time, expires_at, content),
            )
            return cursor.rowcount > 0

    def delete_permanently(self, owner: Owner, group: str, identifier: str, event_time: int) -> bool:
        """Delete a record and its event time. Idempotent.

        Returns:
            True if the store has no record of the identifier now. False if the stored record is as new as `event_time`
            or newer: then it stays.
        """
        key = (owner.account_id, owner.region, group, identifier)
        with self._store.transaction() as db:
            rows = db.execute(f"SELECT event_time FROM feature_records WHERE {_IN_GROUP} AND identifier = ?", key)  # noqa: S608
            if any(event_time <= stored_time for (stored_time,) in rows):
                return False
            db.execute(f"DELETE FROM feature_records WHERE {_IN_GROUP} AND identifier = ?", key)  # noqa: S608
        return True

    def read(self, owner: Owner, group: str, identifiers: Sequence[str]) -> dict[str, StoredRecord]:
        """Return the records by their identifiers. Identifiers without a record are left out."""
        placeholders, key = ", ".join("?" * len(identifiers)), (owner.account_id, owner.region, group)
        statement = (
            "SELECT identifier, content, expires_at FROM feature_records "  # noqa: S608
            f"WHERE {_IN_GROUP} AND identifier IN ({placeholders}) "
            "AND content IS NOT NULL AND (expires_at IS NULL OR expires_at > ?)"
        )
        rows = self._store.query(statement, (*key, *identifiers, _read_clock()))
        return {identifier: StoredRecord(json.loads(content), expires_at) for identifier, content, expires_at in rows}


def _read_clock() -> int:
    return int(time.time() * MICROSECONDS)
