"""moto's S3 on the disk: a change is there before its request is answered, and after a kill -9 of the server.

Kept are buckets with their settings and tags, objects with all their versions, delete markers, metadata, tags and
checksums. Uploads in parts that were not completed, moto's table buckets and what other services of moto put into a
bucket outside of a request are not.
"""

import functools
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from moto.core.model_instances import model_data
from moto.s3.models import FakeBucket, FakeKey, S3Backend, s3_backends

from drydock.moto_registry import bound
from drydock.s3_store.blobs import Blobs
from drydock.s3_store.keys import StoredKey
from drydock.s3_store.middleware import Application, Counter
from drydock.s3_store.tables import Shelf
from drydock.store import Store


class StoredS3(S3Backend):
    """The S3 of one account and partition."""

    def __init__(self, shelf: Shelf, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.shelf = shelf

    def reset(self) -> None:
        """There is no bucket (moto's /moto-api/reset)."""
        for bucket in list(self.buckets.values()):
            s3_backends.bucket_accounts.pop(bucket.name, None)
            self.shelf.forget(bucket)
        shelf, region, account = self.shelf, self.region_name, self.account_id
        self.__dict__.clear()
        StoredS3.__init__(self, shelf, region, account)

    def create_bucket(self, *args: Any, **kwargs: Any) -> FakeBucket:
        """The bucket exists, and its objects will be kept."""
        bucket = super().create_bucket(*args, **kwargs)
        bucket.keys = self.shelf.keys(bucket.name)
        self.shelf.change.buckets[bucket.name] = bucket
        return bucket

    def get_bucket(self, bucket_name: str) -> FakeBucket:
        """Return the bucket; the request may change it."""
        bucket = super().get_bucket(bucket_name)
        self.shelf.change.buckets[bucket.name] = bucket
        return bucket

    def get_object(self, *args: Any, **kwargs: Any) -> FakeKey | None:
        """Return the version, or None; the request may change it."""
        key = super().get_object(*args, **kwargs)
        if isinstance(key, StoredKey):
            self.shelf.change.seen[id(key)] = key
        return key

    def upload_part(self, *args: Any, **kwargs: Any) -> FakeKey:
        """The part is in a temporary file: as many as an upload has would fill the memory."""
        part = super().upload_part(*args, **kwargs)
        part._value_buffer.rollover()
        return part


def install(store: Store, folder: Path) -> Callable[[Application], Counter]:
    """From now on moto's S3, in this process, is kept in the store and the folder; what is there is restored.

    Args:
        store: Holds the records.
        folder: Holds the bytes; made where there is none.

    Returns:
        What wraps the WSGI application: `application = install(...)(application)`.
    """
    shelf = Shelf(store, Blobs(folder))
    s3_backends.clear()
    s3_backends.bucket_accounts.clear()
    s3_backends.backend = bound(StoredS3, shelf)
    # moto 5.2.5 holds on to every model that was ever made, for its dashboard: a leak in a server.
    for model in model_data["s3"].values():
        cast(Any, model).instances_tracked = deque(maxlen=0)
    shelf.restore()
    return functools.partial(Counter, shelf)
