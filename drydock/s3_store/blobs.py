"""Write and read the bytes of S3 objects: one file (blob) per object version, in a folder of the server."""

import uuid
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from drydock.errors import DrydockError

# The first two hexadecimal digits of a file's name are its subfolder's name. So no folder becomes too large to list.
_SUBFOLDERS = [f"{number:02x}" for number in range(256)]


class BlobDamaged(DrydockError):
    """A file cannot be read (for example, it is missing), or its bytes are not those that were written.

    A retry cannot help.
    """


@dataclass(frozen=True)
class Blob:
    """The name, the size and the checksum of one file.

    Attributes:
        name: Name of the file; every blob has its own.
        size: Size in bytes.
        crc: CRC-32 of the bytes, computed by zlib.
    """

    name: str
    size: int
    crc: int


class BlobFolder:
    """The folder with the files. Safe for several threads.

    Args:
        folder: The folder; created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in _SUBFOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)

    def write(self, data: bytes) -> Blob:
        """Write bytes to a new file.

        The file needs no temporary name: no reader knows its name before the row of the database that refers to it is
        committed. If the server is killed before that, `delete_except` deletes the file at the next start.

        Raises:
            OSError: The disk is full or not writable; the file is deleted then. A retry can help.
        """
        blob = Blob(uuid.uuid4().hex, len(data), zlib.crc32(data))
        path = self._get_path(blob.name)
        try:
            path.write_bytes(data)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return blob

    def read(self, blob: Blob) -> bytes:
        """Return the bytes of a blob, exactly as they were written.

        Raises:
            BlobDamaged: The file cannot be read, or has other bytes. A retry cannot help.
        """
        try:
            data = self._get_path(blob.name).read_bytes()
        except OSError as error:
            raise BlobDamaged(f"{blob.name} cannot be read: {error.strerror or error}") from error
        if len(data) != blob.size or zlib.crc32(data) != blob.crc:
            raise BlobDamaged(
                f"{blob.name} is damaged: it has {len(data)} bytes with CRC-32 {zlib.crc32(data):08x}, but {blob.size} "
                f"bytes with CRC-32 {blob.crc:08x} were written"
            )
        return data

    def delete(self, name: str) -> None:
        """Delete a file. Idempotent."""
        self._get_path(name).unlink(missing_ok=True)

    def delete_except(self, names: Collection[str]) -> int:
        """Delete every file except those with the given names. Return how many were deleted."""
        unused_files = [path for path in self._folder.glob("??/*") if path.name not in names]
        for path in unused_files:
            path.unlink()
        return len(unused_files)

    def _get_path(self, name: str) -> Path:
        return self._folder / name[:2] / name
