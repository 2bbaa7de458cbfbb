"""Store moto's S3 on disk. A change is stored before its request is answered, so it survives a kill -9 of the server.

Buckets are stored with their settings and tags, objects with all versions, delete markers, metadata, tags and
checksums. Incomplete multipart uploads, moto's table buckets, and changes that other services of moto make to a bucket
outside of a request are not stored.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from moto.core.model_instances import model_data
from moto.s3.models import FakeBucket, FakeKey, S3Backend, s3_backends

from drydock.moto_registry import bind_arguments
from drydock.s3_store.blobs import BlobFolder
from drydock.s3_store.keys import StoredKey
from drydock.s3_store.middleware import S3Middleware
from drydock.s3_store.presigned import PresignedMiddleware
from drydock.s3_store.tables import S3Tables
from drydock.store import Store
from drydock.wsgi import WsgiApplication


class StoredS3(S3Backend):
    """The S3 backend of one account and AWS partition."""

    def __init__(self, tables: S3Tables, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.tables = tables

    def reset(self) -> None:
        """Delete all buckets, for moto's /moto-api/reset."""
        for bucket in list(self.buckets.values()):
            s3_backends.bucket_accounts.pop(bucket.name, None)
            self.tables.delete_bucket(bucket)
        tables, region, account = self.tables, self.region_name, self.account_id
        self.__dict__.clear()
        StoredS3.__init__(self, tables, region, account)

    def create_bucket(self, *args: Any, **kwargs: Any) -> FakeBucket:
        """Create a bucket whose objects are stored on disk, and record it in the transaction."""
        bucket = super().create_bucket(*args, **kwargs)
        bucket.keys = self.tables.create_keys(bucket.name)
        self.tables.transaction.buckets[bucket.name] = bucket
        return bucket

    def get_bucket(self, bucket_name: str) -> FakeBucket:
        """Return a bucket, and record in the transaction that the request may change it."""
        bucket = super().get_bucket(bucket_name)
        self.tables.transaction.buckets[bucket.name] = bucket
        return bucket

    def get_object(self, *args: Any, **kwargs: Any) -> FakeKey | None:
        """Return a version of an object, and record in the transaction that the request may change it.

        None if the version does not exist, or if it is a delete marker and `return_delete_marker` is not set.
        """
        key = super().get_object(*args, **kwargs)
        if isinstance(key, StoredKey):
            self.tables.transaction.accessed_versions[id(key)] = key
        return key

    def upload_part(self, *args: Any, **kwargs: Any) -> FakeKey:
        """Store a part of an upload in a temporary file, since all parts together could fill the memory."""
        part = super().upload_part(*args, **kwargs)
        part._value_buffer.rollover()
        return part


def install(store: Store, folder: Path) -> Callable[[WsgiApplication], S3Middleware]:
    """Make moto's S3 in this process durable, and restore the buckets and objects that are on disk.

    Args:
        store: Storage of the records.
        folder: Folder of the bytes; created if it does not exist.

    Returns:
        A function that puts the middleware around moto's application: `application = install(...)(application)`.
    """
    tables = S3Tables(store, BlobFolder(folder))
    s3_backends.clear()
    s3_backends.bucket_accounts.clear()
    s3_backends.backend = bind_arguments(StoredS3, tables)
    # moto 5.2.5 keeps every model that it creates in memory, for its dashboard. In a server this is a memory leak.
    for model in model_data["s3"].values():
        cast(Any, model).instances_tracked = deque(maxlen=0)
    tables.restore()
    return lambda application: S3Middleware(tables, PresignedMiddleware(application))
