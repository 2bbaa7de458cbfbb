"""The bytes of S3's objects: one file for each, in a folder of the server's."""

import uuid
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from drydock.errors import DrydockError

# So many subfolders, named by a file's first two hexadecimal digits: no folder becomes too large to list.
_FANS = [f"{number:02x}" for number in range(256)]


class BlobDamaged(DrydockError):
    """A file is missing, short, or not what was written."""


@dataclass(frozen=True)
class Blob:
    """Names one file and what is in it.

    Args:
        name: The file's name; no two blobs share one.
        size: In bytes.
        crc: zlib's CRC-32 of the bytes.
    """

    name: str
    size: int
    crc: int


class Blobs:
    """The folder. Safe for several threads.

    Args:
        folder: Made where there is none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for fan in _FANS:
            (folder / fan).mkdir(parents=True, exist_ok=True)

    def write(self, data: bytes) -> Blob:
        """The bytes are in a new file.

        No rename is needed: nobody knows the name before the row that holds it is committed, and `sweep` removes
        what a kill has left.

        Raises:
            OSError: The disk is full or not writable; nothing is left of the file.
        """
        blob = Blob(uuid.uuid4().hex, len(data), zlib.crc32(data))
        path = self._path(blob.name)
        try:
            path.write_bytes(data)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return blob

    def read(self, blob: Blob) -> bytes:
        """Return the bytes, as they were written.

        Raises:
            BlobDamaged: The file does not hold them any more.
        """
        try:
            data = self._path(blob.name).read_bytes()
        except OSError as error:
            raise BlobDamaged(f"{blob.name} cannot be read: {error.strerror or error}") from error
        if len(data) != blob.size or zlib.crc32(data) != blob.crc:
            raise BlobDamaged(f"{blob.name} has {len(data)} bytes that are not the {blob.size} that were written")
        return data

    def delete(self, name: str) -> None:
        """There is no such file. Idempotent."""
        self._path(name).unlink(missing_ok=True)

    def sweep(self, keep: Collection[str]) -> int:
        """Only the files named in keep are left; returns how many went."""
        strays = [path for path in self._folder.glob("??/*") if path.name not in keep]
        for path in strays:
            path.unlink()
        return len(strays)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name
