"""Buckets and objects as rows of the store: what a request changed is committed before it is answered."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from moto.s3.models import FakeBucket, FakeDeleteMarker, s3_backends

from drydock import encoding
from drydock.s3_store.blobs import Blob, Blobs
from drydock.s3_store.keys import StoredKey, StoredKeys
from drydock.s3_store.transaction import Change
from drydock.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS s3_buckets (
    name TEXT PRIMARY KEY, account TEXT NOT NULL, partition TEXT NOT NULL, record TEXT NOT NULL
);
-- One row a version, in the order in which they came to be; without a blob it is a delete marker.
CREATE TABLE IF NOT EXISTS s3_objects (
    id INTEGER PRIMARY KEY, bucket TEXT NOT NULL, name TEXT NOT NULL,
    blob TEXT, size INTEGER, crc INTEGER, record TEXT NOT NULL
);
"""
_INSERT = "INSERT INTO s3_objects (bucket, name, blob, size, crc, record) VALUES (?, ?, ?, ?, ?, ?)"
# What a bucket has besides its record.
_CONTENTS = frozenset({"keys", "multiparts"})


class Shelf:
    """What keeps moto's buckets.

    Args:
        store: Where the rows are.
        blobs: Where the bytes are.
    """

    def __init__(self, store: Store, blobs: Blobs) -> None:
        self._store, self.blobs = store, blobs
        self._current = threading.local()
        # By bucket: its record as it is in the store.
        self._saved: dict[str, str] = {}
        store.ensure(SCHEMA)

    @property
    def change(self) -> Change:
        """The change of the request that this thread answers; what happens outside of one is not kept."""
        return getattr(self._current, "change", None) or Change()

    @contextmanager
    def request(self) -> Iterator[Change]:
        """This thread answers a request for as long as the context lasts."""
        self._current.change = change = Change()
        try:
            yield change
        finally:
            self._current.change = None

    def keys(self, bucket_name: str) -> StoredKeys:
        """Return the objects of a new bucket: none so far."""
        return StoredKeys(bucket_name, self.blobs, self._changing, self._adopted)

    def commit(self, change: Change) -> None:
        """What the request changed is in the store, and files that nothing needs any more are gone.

        Raises:
            sqlite3.Error: The disk is full or not writable; the store is as it was.
            TypeError: The request set what drydock cannot keep.
        """
        buckets = {name: text for name, bucket in change.buckets.items() if (text := self._news(bucket)) is not None}
        updates = [(key, text) for key in change.seen.values() if key.row and hash(text := _record(key)) != key.saved]
        if change.before or buckets or updates:
            # Before the store is taken: moto's registry has a lock, under which Logs' backend reads the store.
            differences = [
                (gone, [(version, _row(bucket, name, version)) for version in come])
                for bucket, name, gone, come in change.differences()
            ]
            with self._store.write() as db:
                for gone, come in differences:
                    db.executemany("DELETE FROM s3_objects WHERE id = ?", [(version.row,) for version in gone])
                    for version, values in come:
                        version.row = db.execute(_INSERT, values).lastrowid
                db.executemany("UPDATE s3_objects SET record = ? WHERE id = ?", [(t, key.row) for key, t in updates])
                for name, text in buckets.items():
                    _write_bucket(db, change.buckets[name], text)
            self._saved.update(buckets)
            for key, text in updates:
                key.saved = hash(text)
        change.drop_files(self.blobs)

    def restore(self) -> None:
        """Every bucket and object of the store is moto's again, and no other file is left."""
        for name, account, partition, text in self._store.read("SELECT * FROM s3_buckets ORDER BY rowid"):
            self._saved[name] = text
            self._revive_bucket(name, account, partition, text)
        kept = set()
        for row, bucket, name, blob, size, crc, text in self._store.read("SELECT * FROM s3_objects ORDER BY id"):
            account, partition = s3_backends.bucket_accounts[bucket][::-1]
            keys = s3_backends[account][partition].buckets[bucket].keys
            self._revive(keys, name, row, Blob(blob, size, crc) if blob else None, text)
            kept.add(blob)
        self.blobs.sweep(kept)

    def forget(self, bucket: FakeBucket) -> None:
        """Neither the bucket nor what was in it is in the store."""
        rows = self._store.read("SELECT blob FROM s3_objects WHERE bucket = ? AND blob IS NOT NULL", (bucket.name,))
        with self._store.write() as db:
            db.execute("DELETE FROM s3_objects WHERE bucket = ?", (bucket.name,))
            db.execute("DELETE FROM s3_buckets WHERE name = ?", (bucket.name,))
        self._saved.pop(bucket.name, None)
        for (blob,) in rows:
            self.blobs.delete(blob)

    def _changing(self, keys: StoredKeys, name: str) -> None:
        self.change.remember(keys, name)

    def _adopted(self, key: StoredKey) -> None:
        self.change.adopted.append(key)

    def _news(self, bucket: FakeBucket) -> str | None:
        """Return the bucket's record where it is not what the store has; an empty one: the bucket is gone."""
        known = self._saved.get(bucket.name, "")
        backend = s3_backends[bucket.account_id][bucket.partition]
        text = _record(bucket) if backend.buckets.get(bucket.name) is bucket else ""
        return text if text != known else None

    def _revive_bucket(self, name: str, account: str, partition: str, text: str) -> None:
        backend, record = s3_backends[account][partition], encoding.loads(text)
        bucket = FakeBucket(name, account, record["state"]["region_name"])
        bucket.__dict__.update(record["state"])
        bucket.keys = self.keys(name)
        backend.buckets[name] = bucket
        if record["tags"]:
            backend.tagger.tags[bucket.arn] = record["tags"]

    def _revive(self, keys: StoredKeys, name: str, row: int, blob: Blob | None, text: str) -> None:
        record, earlier = encoding.loads(text), keys.getlist(name, [])
        if blob:
            version: Any = StoredKey.revived(record["state"], blob, self.blobs)
            version.saved = hash(text)
            if record["tags"]:
                s3_backends[version.account_id][version.partition].tagger.tags[version.arn] = record["tags"]
        else:
            # moto asks a marker of what kind the version below it is.
            version = FakeDeleteMarker(earlier[-1] if earlier else SimpleNamespace(name=name))
            version.__dict__.update(record["state"])
        version.row = row
        keys.put_back(name, [*earlier, version])


def _record(thing: FakeBucket | StoredKey) -> str:
    if isinstance(thing, FakeBucket):
        state = {name: value for name, value in vars(thing).items() if name not in _CONTENTS}
    else:
        state = thing.state
    tagger = s3_backends[thing.account_id][thing.partition].tagger
    return encoding.dumps({"state": state, "tags": tagger.get_tag_dict_for_resource(thing.arn)})


def _write_bucket(db: sqlite3.Connection, bucket: FakeBucket, text: str) -> None:
    db.execute("DELETE FROM s3_buckets WHERE name = ?", (bucket.name,))
    if text:
        row = (bucket.name, bucket.account_id, bucket.partition, text)
        db.execute("INSERT INTO s3_buckets VALUES (?, ?, ?, ?)", row)


def _row(bucket: str, name: str, version: Any) -> tuple[Any, ...]:
    if isinstance(version, StoredKey):
        blob, text = version.blob, _record(version)
        version.saved = hash(text)
        return bucket, name, blob.name, blob.size, blob.crc, text
    state = {"last_modified": version.last_modified, "_version_id": version.version_id}
    return bucket, name, None, None, None, encoding.dumps({"state": state})
