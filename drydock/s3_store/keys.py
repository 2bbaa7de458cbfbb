"""The objects of a bucket: moto's key classes, with the bytes in files."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, cast
from xml.sax.saxutils import escape

from moto.s3.models import FakeKey, FakeMultipart
from moto.s3.utils import _VersionedKeyStore
from werkzeug import Response
from werkzeug.exceptions import InternalServerError

from drydock.s3_store.blobs import Blob, BlobDamaged, BlobFolder

log = logging.getLogger(__name__)

# Attributes that are not part of a version's record: buffers, locks, counters that every read changes, and the
# attributes that StoredKey adds.
_UNSTORED_ATTRIBUTES = frozenset({
    "_value_buffer", "lock", "disposed", "multipart", "_max_buffer_size", "_transitions", "model_name", "_tick",
    "_time_progressed", "blob", "blobs", "row_id", "record_hash",
})  # fmt: skip


class StorageFault(InternalServerError):
    """S3's response to an error of the server: HTTP status 500, which clients retry.

    A retry can help, unless the object's file is damaged, or the request sets a value that cannot be stored. moto's S3
    has no such exception.
    """

    def __init__(self, message: str) -> None:
        body = f"<Error><Code>InternalError</Code><Message>{escape(message)}</Message></Error>"
        super().__init__(message, Response(body, status=500, content_type="application/xml"))


class StoredKey(FakeKey):
    """One version of an object. Create it with `from_moto` or `from_record`.

    Attributes:
        blob: The file with the bytes.
        blobs: The folder of that file.
        row_id: Id of the version's row in the store; None before it is stored.
        record_hash: Hash of the record that the store has, to find out whether a request has changed it.
    """

    blob: Blob
    blobs: BlobFolder
    row_id: int | None
    record_hash: int

    @classmethod
    def from_moto(cls, key: FakeKey, blobs: BlobFolder) -> "StoredKey":
        """Convert a key of moto's in place: write its bytes to a file, and free its memory.

        Raises:
            OSError: The disk is full or not writable; the key is unchanged. A retry can help.
        """
        data = key.value
        blob = blobs.write(data)
        if key._etag is None:
            key._etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        key._value_buffer.close()
        # moto creates keys of its own class and keeps references to them, so the class of the object is changed.
        key.__class__ = cls
        stored_key = cast(StoredKey, key)
        stored_key.blob, stored_key.blobs, stored_key.row_id, stored_key.record_hash = blob, blobs, None, 0
        return stored_key

    @classmethod
    def from_record(cls, state: dict[str, Any], blob: Blob, blobs: BlobFolder) -> "StoredKey":
        """Create the version from its stored `state`. The caller must set `row_id` and `record_hash` afterwards."""
        key = object.__new__(cls)
        upload = state.pop("parts")
        key.__dict__.update({**_UNSTORED_DEFAULTS, **state})
        key.blob, key.blobs = blob, blobs
        key.multipart = _restore_multipart(key, *upload) if upload else None
        return key

    @property
    def state(self) -> dict[str, Any]:
        """Everything that `from_record` needs to restore the version, except its bytes."""
        state = {name: value for name, value in vars(self).items() if name not in _UNSTORED_ATTRIBUTES}
        upload = self.multipart
        parts = [[number, part.etag, part.size] for number, part in upload.parts.items()] if upload else []
        return {**state, "parts": [upload.id, parts] if upload else None}

    @property
    def value(self) -> bytes:
        """The bytes, read from the file.

        Raises:
            StorageFault: The file cannot be read, or is damaged. A retry cannot help.
        """
        try:
            return self.blobs.read(self.blob)
        except BlobDamaged as error:
            log.error("object %s/%s: %s", self.bucket_name, self.name, error)
            raise StorageFault("The object's data is damaged on the server's disk.") from error

    def dispose(self, garbage: bool = False) -> None:
        """Do nothing: the file is deleted after its row."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "StoredKey":
        """Return a copy that shares the bytes. moto makes such copies when it lists versions."""
        copy = object.__new__(StoredKey)
        copy.__dict__.update(vars(self))
        return copy


# Values for the attributes that a record does not have.
_UNSTORED_DEFAULTS = {
    name: value for name, value in vars(FakeKey("", b"", "", "us-east-1")).items() if name in _UNSTORED_ATTRIBUTES
}


def _restore_multipart(key: StoredKey, upload_id: str, parts: list[tuple[int, str, int]]) -> FakeMultipart:
    """Create the multipart upload of a version from the number, ETag and size of each part. The parts have no bytes."""
    upload = FakeMultipart(key.name, {}, key.account_id, key.region_name)
    upload.id = upload_id
    for number, etag, size in parts:
        upload.set_part(number, b"")._etag = etag.strip('"')
        upload.parts[number].contentsize = size
    return upload


class StoredKeys(_VersionedKeyStore):
    """A bucket's objects by name; each is a list of versions, the newest last.

    Args:
        bucket_name: Name of the bucket.
        blobs: Folder for the bytes.
        before_change: Called with this StoredKeys and a name before the versions of that name change.
        after_create: Called with each new version, after its bytes are written and before it is added to the bucket.
    """

    def __init__(
        self,
        bucket_name: str,
        blobs: BlobFolder,
        before_change: Callable[["StoredKeys", str], None],
        after_create: Callable[[StoredKey], None],
    ) -> None:
        super().__init__()
        self.bucket_name = bucket_name
        self._blobs, self._before_change, self._after_create = blobs, before_change, after_create

    def setlist(self, key: str, list_: Sequence[Any]) -> None:
        """Replace the versions of a name.

        Raises:
            StorageFault: The bytes of a new version cannot be written; nothing has changed.
        """
        versions = [self._store_version(version) for version in list_]
        self._before_change(self, key)
        super().setlist(key, versions)

    def __setitem__(self, key: str, value: Any) -> None:
        """Add a version; moto adds delete markers this way."""
        self.setlist(key, [*self.getlist(key, []), value])

    def pop(self, key: str) -> None:
        """Remove a name with all its versions."""
        self._before_change(self, key)
        super().pop(key)

    def restore_versions(self, key: str, versions: list[Any]) -> None:
        """Set the versions of a name without recording a change."""
        if versions:
            super().setlist(key, versions)
        elif key in self:
            super().pop(key)

    def _store_version(self, version: Any) -> Any:
        if not isinstance(version, FakeKey) or isinstance(version, StoredKey):
            return version
        try:
            stored_key = StoredKey.from_moto(version, self._blobs)
        except OSError as error:
            log.error("object %s/%s: cannot be written: %s", self.bucket_name, version.name, error)
            raise StorageFault(f"The object cannot be written: {error.strerror or error}.") from error
        self._after_create(stored_key)
        return stored_key
