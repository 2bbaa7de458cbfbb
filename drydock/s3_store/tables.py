"""Store buckets and objects as rows: the changes of a request are committed before it is answered."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from moto.s3.models import FakeBucket, FakeDeleteMarker, s3_backends

from drydock import encoding
from drydock.s3_store.blobs import Blob, BlobFolder
from drydock.s3_store.keys import StoredKey, StoredKeys
from drydock.s3_store.transaction import Transaction
from drydock.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS s3_buckets (
    name TEXT PRIMARY KEY, account TEXT NOT NULL, partition TEXT NOT NULL, record TEXT NOT NULL
);
-- One row per version, in the order of creation. A row without a blob is a delete marker.
CREATE TABLE IF NOT EXISTS s3_objects (
    id INTEGER PRIMARY KEY, bucket TEXT NOT NULL, name TEXT NOT NULL,
    blob TEXT, size INTEGER, crc INTEGER, record TEXT NOT NULL
);
"""
_INSERT = "INSERT INTO s3_objects (bucket, name, blob, size, crc, record) VALUES (?, ?, ?, ?, ?, ?)"
# Attributes of a bucket that are not part of its record.
_CONTENT_ATTRIBUTES = frozenset({"keys", "multiparts"})


class S3Tables:
    """Stores moto's buckets and objects.

    Args:
        store: Storage of the rows.
        blobs: Folder of the bytes.
    """

    def __init__(self, store: Store, blobs: BlobFolder) -> None:
        self._store, self.blobs = store, blobs
        self._thread_data = threading.local()
        # The stored record of each bucket, by the bucket's name.
        self._bucket_records: dict[str, str] = {}
        store.create_tables(SCHEMA)

    @property
    def transaction(self) -> Transaction:
        """The transaction of the request that this thread answers.

        Outside of a request, a new one, which is never committed: such changes are not stored.
        """
        return getattr(self._thread_data, "transaction", None) or Transaction()

    @contextmanager
    def begin_transaction(self) -> Iterator[Transaction]:
        """Run a block in which this thread answers one request, with a transaction of its own."""
        self._thread_data.transaction = transaction = Transaction()
        try:
            yield transaction
        finally:
            self._thread_data.transaction = None

    def create_keys(self, bucket_name: str) -> StoredKeys:
        """Return an empty container for the objects of a bucket."""
        return StoredKeys(bucket_name, self.blobs, self._add_earlier_versions, self._add_created_version)

    def commit(self, transaction: Transaction) -> None:
        """Store the changes of a request, and delete files that no version needs any more.

        Raises:
            sqlite3.Error: The disk is full or not writable; the store is unchanged. A retry can help.
            TypeError: The request set a value that cannot be stored. A retry cannot help.
        """
        bucket_changes = {
            name: record
            for name, bucket in transaction.buckets.items()
            if (record := self._find_bucket_change(bucket)) is not None
        }
        version_changes = [
            (key, text)
            for key in transaction.accessed_versions.values()
            if key.row_id and hash(text := _encode_record(key)) != key.record_hash
        ]
        if transaction.earlier_versions or bucket_changes or version_changes:
            self._write(transaction, bucket_changes, version_changes)
            self._bucket_records.update(bucket_changes)
            for key, record in version_changes:
                key.record_hash = hash(record)
        transaction.delete_unused_files(self.blobs)

    def restore(self) -> None:
        """Create moto's buckets and objects from the store, and delete files that belong to none of them."""
        for name, account, partition, record in self._store.query("SELECT * FROM s3_buckets ORDER BY rowid"):
            self._bucket_records[name] = record
            self._restore_bucket(name, account, partition, record)
        used_files = set()
        for row_id, bucket, name, blob, size, crc, record in self._store.query("SELECT * FROM s3_objects ORDER BY id"):
            account, partition = s3_backends.bucket_accounts[bucket][::-1]
            keys = s3_backends[account][partition].buckets[bucket].keys
            self._restore_version(keys, name, row_id, Blob(blob, size, crc) if blob else None, record)
            used_files.add(blob)
        self.blobs.delete_except(used_files)

    def delete_bucket(self, bucket: FakeBucket) -> None:
        """Delete a bucket and its objects from the store."""
        rows = self._store.query("SELECT blob FROM s3_objects WHERE bucket = ? AND blob IS NOT NULL", (bucket.name,))
        with self._store.transaction() as db:
            db.execute("DELETE FROM s3_objects WHERE bucket = ?", (bucket.name,))
            db.execute("DELETE FROM s3_buckets WHERE name = ?", (bucket.name,))
        self._bucket_records.pop(bucket.name, None)
        for (blob,) in rows:
            self.blobs.delete(blob)

    def _write(
        self, transaction: Transaction, bucket_changes: dict[str, str], version_changes: list[tuple[StoredKey, str]]
    ) -> None:
        # The rows are built before the store is locked, because building them takes the lock of moto's backends. The
        # thread that creates a backend of CloudWatch Logs holds that lock while it reads the store. If this thread took
        # the locks in the other order, the two could wait for each other forever.
        differences = [
            (removed_versions, [(version, _build_row(bucket, name, version)) for version in added_versions])
            for bucket, name, removed_versions, added_versions in transaction.list_differences()
        ]
        with self._store.transaction() as db:
            for removed_versions, added_rows in differences:
                db.executemany(
                    "DELETE FROM s3_objects WHERE id = ?", [(version.row_id,) for version in removed_versions]
                )
                for version, values in added_rows:
                    version.row_id = db.execute(_INSERT, values).lastrowid
            rows = [(record, key.row_id) for key, record in version_changes]
            db.executemany("UPDATE s3_objects SET record = ? WHERE id = ?", rows)
            for name, record in bucket_changes.items():
                _write_bucket(db, transaction.buckets[name], record)

    def _add_earlier_versions(self, keys: StoredKeys, name: str) -> None:
        """Record the versions of an object before the request changes it; `_write` compares them with the new ones."""
        self.transaction.add_earlier_versions(keys, name)

    def _add_created_version(self, key: StoredKey) -> None:
        self.transaction.created_versions.append(key)

    def _find_bucket_change(self, bucket: FakeBucket) -> str | None:
        """Return a bucket's new record, "" if the bucket was deleted, None if the record has not changed."""
        stored_record = self._bucket_records.get(bucket.name, "")
        backend = s3_backends[bucket.account_id][bucket.partition]
        record = _encode_record(bucket) if backend.buckets.get(bucket.name) is bucket else ""
        return record if record != stored_record else None

    def _restore_bucket(self, name: str, account: str, partition: str, text: str) -> None:
        backend, record = s3_backends[account][partition], encoding.loads(text)
        bucket = FakeBucket(name, account, record["state"]["region_name"])
        bucket.__dict__.update(record["state"])
        bucket.keys = self.create_keys(name)
        backend.buckets[name] = bucket
        if record["tags"]:
            backend.tagger.tags[bucket.arn] = record["tags"]

    def _restore_version(self, keys: StoredKeys, name: str, row_id: int, blob: Blob | None, text: str) -> None:
        record, earlier_versions = encoding.loads(text), keys.getlist(name, [])
        if blob:
            version: Any = StoredKey.from_record(record["state"], blob, self.blobs)
            version.record_hash = hash(text)
            if record["tags"]:
                s3_backends[version.account_id][version.partition].tagger.tags[version.arn] = record["tags"]
        else:
            # moto's constructor copies attributes of the previous version into the delete marker.
            previous_version: Any = earlier_versions[-1] if earlier_versions else SimpleNamespace(name=name)
            version = FakeDeleteMarker(previous_version)
            version.__dict__.update(record["state"])
        version.row_id = row_id
        keys.restore_versions(name, [*earlier_versions, version])


def _encode_record(model: FakeBucket | StoredKey) -> str:
    if isinstance(model, FakeBucket):
        state = {name: value for name, value in vars(model).items() if name not in _CONTENT_ATTRIBUTES}
    else:
        state = model.state
    tagger = s3_backends[model.account_id][model.partition].tagger
    return encoding.dumps({"state": state, "tags": tagger.get_tag_dict_for_resource(model.arn)})


def _write_bucket(db: sqlite3.Connection, bucket: FakeBucket, record: str) -> None:
    """Replace a bucket's row; an empty record only deletes the row."""
    db.execute("DELETE FROM s3_buckets WHERE name = ?", (bucket.name,))
    if record:
        row = (bucket.name, bucket.account_id, bucket.partition, record)
        db.execute("INSERT INTO s3_buckets VALUES (?, ?, ?, ?)", row)


def _build_row(bucket: str, name: str, version: Any) -> tuple[Any, ...]:
    if isinstance(version, StoredKey):
        blob, record = version.blob, _encode_record(version)
        version.record_hash = hash(record)
        return bucket, name, blob.name, blob.size, blob.crc, record
    state = {"last_modified": version.last_modified, "_version_id": version.version_id}
    return bucket, name, None, None, None, encoding.dumps({"state": state})
