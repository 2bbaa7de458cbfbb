"""The objects of a bucket, as moto keeps them, with their bytes in files."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, cast
from xml.sax.saxutils import escape

from moto.s3.models import FakeKey, FakeMultipart
from moto.s3.utils import _VersionedKeyStore
from werkzeug import Response
from werkzeug.exceptions import InternalServerError

from drydock.s3_store.blobs import Blob, BlobDamaged, Blobs

log = logging.getLogger(__name__)

# What is moto's of the moment: buffers, locks, counters that every read turns. The rest is a version's record.
_FLEETING = frozenset({
    "_value_buffer", "lock", "disposed", "multipart", "_max_buffer_size", "_transitions", "model_name", "_tick",
    "_time_progressed", "blob", "blobs", "row", "saved",
})  # fmt: skip


class StorageFault(InternalServerError):
    """S3's answer to a fault of its own: HTTP status 500, which clients retry. No exception of moto's S3 gives one."""

    def __init__(self, message: str) -> None:
        body = f"<Error><Code>InternalError</Code><Message>{escape(message)}</Message></Error>"
        super().__init__(message, Response(body, status=500, content_type="application/xml"))


class StoredKey(FakeKey):
    """One version of an object. Made by `adopt` and `revived`."""

    blob: Blob
    blobs: Blobs
    row: int | None
    saved: int

    @classmethod
    def adopt(cls, key: FakeKey, blobs: Blobs) -> "StoredKey":
        """The key that moto made has its bytes in a file, and none in memory.

        Raises:
            OSError: The disk is full or not writable; the key is as it was.
        """
        data = key.value
        blob = blobs.write(data)
        if key._etag is None:
            key._etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        key._value_buffer.close()
        # moto names its class where it makes a key, and holds on to the key that it has made.
        key.__class__ = cls
        stored = cast(StoredKey, key)
        stored.blob, stored.blobs, stored.row, stored.saved = blob, blobs, None, 0
        return stored

    @classmethod
    def revived(cls, state: dict[str, Any], blob: Blob, blobs: Blobs) -> "StoredKey":
        """Return the version that `state` was taken of."""
        key = object.__new__(cls)
        parts = state.pop("parts")
        key.__dict__.update({**_BLANK, **state})
        key.blob, key.blobs = blob, blobs
        key.multipart = _multipart(key, *parts) if parts else None
        return key

    @property
    def state(self) -> dict[str, Any]:
        """What makes the same version again, its bytes apart."""
        state = {name: value for name, value in vars(self).items() if name not in _FLEETING}
        upload = self.multipart
        sizes = [[number, part.etag, part.size] for number, part in upload.parts.items()] if upload else []
        return {**state, "parts": [upload.id, sizes] if upload else None}

    @property
    def value(self) -> bytes:
        """The bytes, read from the file.

        Raises:
            StorageFault: The file is damaged.
        """
        try:
            return self.blobs.read(self.blob)
        except BlobDamaged as error:
            log.error("object %s/%s: %s", self.bucket_name, self.name, error)
            raise StorageFault("The object's data is damaged on the server's disk.") from error

    def dispose(self, garbage: bool = False) -> None:
        """Do nothing: the file goes when the row is gone."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "StoredKey":
        """Return a copy without a copy of the bytes (moto copies all that it lists the versions of)."""
        twin = object.__new__(StoredKey)
        twin.__dict__.update(vars(self))
        return twin


# The attributes that a record does not hold.
_BLANK = {name: value for name, value in vars(FakeKey("", b"", "", "us-east-1")).items() if name in _FLEETING}


def _multipart(key: StoredKey, upload_id: str, sizes: list[tuple[int, str, int]]) -> FakeMultipart:
    upload = FakeMultipart(key.name, {}, key.account_id, key.region_name)
    upload.id = upload_id
    for number, etag, size in sizes:
        upload.set_part(number, b"")._etag = etag.strip('"')
        upload.parts[number].contentsize = size
    return upload


class StoredKeys(_VersionedKeyStore):
    """A bucket's objects by name, each a list of versions, the newest last.

    Args:
        bucket_name: The bucket.
        blobs: Where the bytes go.
        changing: Called with this and a name before the name's versions change.
        adopted: Called with a version that is about to be in the list.
    """

    def __init__(
        self,
        bucket_name: str,
        blobs: Blobs,
        changing: Callable[["StoredKeys", str], None],
        adopted: Callable[[StoredKey], None],
    ) -> None:
        super().__init__()
        self.bucket_name = bucket_name
        self._blobs, self._changing, self._adopted = blobs, changing, adopted

    def setlist(self, key: str, list_: Sequence[Any]) -> None:
        """These are the versions.

        Raises:
            StorageFault: A new one's bytes cannot be written; nothing has changed.
        """
        versions = [self._stored(version) for version in list_]
        self._changing(self, key)
        super().setlist(key, versions)

    def __setitem__(self, key: str, value: Any) -> None:
        """There is one more version (moto appends delete markers so)."""
        self.setlist(key, [*self.getlist(key, []), value])

    def pop(self, key: str) -> None:
        """There is no such object."""
        self._changing(self, key)
        super().pop(key)

    def put_back(self, key: str, versions: list[Any]) -> None:
        """The versions are these again."""
        if versions:
            super().setlist(key, versions)
        elif key in self:
            super().pop(key)

    def _stored(self, version: Any) -> Any:
        if not isinstance(version, FakeKey) or isinstance(version, StoredKey):
            return version
        try:
            stored = StoredKey.adopt(version, self._blobs)
        except OSError as error:
            log.error("object %s/%s: cannot be written: %s", self.bucket_name, version.name, error)
            raise StorageFault(f"The object cannot be written: {error.strerror or error}.") from error
        self._adopted(stored)
        return stored
