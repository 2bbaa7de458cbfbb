"""Read, list and replace single files of the lake, on this machine or in S3."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from pipelines.errors import DataError, ServiceError
from pipelines.system.error_translation import AWS_ERROR, describe_reason, translate_known_error
from pipelines.system.files import replace_file

CHUNK_BYTES = 1 << 20
"""Number of bytes that are read at a time."""
ACCESS_DENIED = "AWS Error ACCESS_DENIED"
"""Part of the text of pyarrow 25's error if S3 refuses a request."""


def get_local_path(location: str) -> Path | None:
    """Return the path of a file or folder on this machine; None if it is in remote storage."""
    scheme, _, path = PyArrowFileIO.parse_location(location)
    return Path(path) if scheme in ("file", "") else None


def find_size(io: FileIO, location: str) -> int | None:
    """Return the size of a file, bytes; 0 for a folder, None if there is no such file.

    Raises:
        PermissionError: there is no permission to read the file.
        OSError: the disk cannot read the file.
        DataError: the storage refuses the request, for example because the bucket is missing. A retry cannot help.
        ServiceError: the storage does not answer. A retry can help.
    """
    with _translate_remote_errors(location):
        try:
            return len(io.new_input(location))
        except FileNotFoundError:
            return None
        except TypeError:  # a folder has no size
            return 0


def read_bytes(io: FileIO, location: str) -> bytes:
    """Return the content of a small file.

    Raises:
        OSError: the file does not exist, there is no permission to read it, or the disk cannot read it.
        DataError: the storage refuses the request, for example because the bucket is missing. A retry cannot help.
        ServiceError: the storage does not answer. A retry can help.
    """
    return b"".join(iterate_chunks(io, location))


def iterate_chunks(io: FileIO, location: str) -> Iterator[bytes]:
    """Yield a file's content in chunks of `CHUNK_BYTES`.

    Raises:
        OSError: the file does not exist, there is no permission to read it, or the disk cannot read it.
        DataError: the storage refuses the request, for example because the bucket is missing. A retry cannot help.
        ServiceError: the storage does not answer. A retry can help.
    """
    with _translate_remote_errors(location), io.new_input(location).open() as file:
        while chunk := file.read(CHUNK_BYTES):
            yield bytes(chunk)


def compute_digest(io: FileIO, locations: Iterable[str]) -> str:
    """Return the SHA-256 over the content of the files, in this order.

    Raises:
        OSError: a file does not exist, there is no permission to read it, or the disk cannot read it.
        DataError: the storage refuses the request, for example because the bucket is missing. A retry cannot help.
        ServiceError: the storage does not answer. A retry can help.
    """
    digest = hashlib.sha256()
    for location in locations:
        for chunk in iterate_chunks(io, location):
            digest.update(chunk)
    return digest.hexdigest()


def list_files(io: FileIO, location: str) -> dict[str, dt.datetime]:
    """Return each file below a folder, with the time of its last change; empty if there is no such folder.

    The locations have the scheme and host of `location`. Files whose names begin with a dot are left out: a killed
    `put_file` leaves such a file.

    If `io` is not pyarrow's, it cannot list files, and no files are returned.

    Raises:
        OSError: the folder is on this machine and cannot be read.
        DataError: the storage refuses the request, for example because there is no permission to list files. A retry
            cannot help.
        ServiceError: the storage does not answer. A retry can help.
    """
    if not isinstance(io, PyArrowFileIO):
        return {}
    scheme, netloc, path = PyArrowFileIO.parse_location(location)
    prefix = location[: len(location) - len(path)] if location.endswith(path) else f"{scheme}://"
    with _translate_remote_errors(location, is_one_file=False):
        infos = _read_infos(io.fs_by_scheme(scheme, netloc), path)
    files = [info for info in infos if info.type == FileType.File and not info.base_name.startswith(".")]
    return {f"{prefix}{info.path}": info.mtime for info in files}


def _read_infos(system: FileSystem, path: str) -> list[FileInfo]:
    """Return all files and folders below a folder; none if there is no such folder."""
    selector = FileSelector(path, recursive=True, allow_not_found=True)
    try:
        return list(system.get_file_info(selector))
    except FileNotFoundError:  # another process created or removed a folder during the listing
        return list(system.get_file_info(selector))


def put_file(io: FileIO, location: str, source: Path) -> None:
    """Copy `source` to `location` and replace an existing file, atomically.

    Raises:
        OSError: `location` is on this machine and cannot be written.
        DataError: the storage refuses the request, for example because the bucket is missing. A retry cannot help.
        ServiceError: the storage does not answer. A retry can help.
    """
    path = get_local_path(location)
    if path is None:
        # S3 shows an object only when its upload has ended.
        output = io.new_output(location)
        with (
            _translate_remote_errors(location, is_one_file=False),
            source.open("rb") as content,
            output.create(overwrite=True) as target,
        ):
            shutil.copyfileobj(content, target, CHUNK_BYTES)
        return
    with replace_file(path) as temporary, source.open("rb") as content, temporary.open("wb") as target:
        shutil.copyfileobj(content, target, CHUNK_BYTES)
        target.flush()
        os.fsync(target.fileno())


def download_file(io: FileIO, location: str, path: Path) -> Path:
    """Copy a file to `path` on this machine, and return `path`.

    Raises:
        OSError: the file does not exist, there is no permission to read it, or the disk cannot read it.
        DataError: the storage refuses the request, for example because the bucket is missing. A retry cannot help.
        ServiceError: the storage does not answer. A retry can help.
    """
    with path.open("wb") as target:
        for chunk in iterate_chunks(io, location):
            target.write(chunk)
    return path


@contextmanager
def _translate_remote_errors(location: str, *, is_one_file: bool = True) -> Iterator[None]:
    """Translate errors of remote storage. Errors of files on this machine and FileNotFoundError are raised unchanged.

    Args:
        location: location of the file or folder that is read or written.
        is_one_file: whether "access denied" is a problem of this file only, and not of the whole storage.

    Raises:
        PermissionError: the storage denies access, and `is_one_file` is set.
        DataError: the storage refuses the request, for example because the bucket is missing. A retry cannot help.
        ServiceError: the storage does not answer. A retry can help.
    """
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as error:
        if get_local_path(location) is not None:
            raise
        if is_one_file and ACCESS_DENIED in str(error):
            raise PermissionError(errno.EACCES, "access denied", location) from None
        translation = translate_known_error(error)
        if isinstance(translation, (ServiceError, DataError)) and AWS_ERROR.search(str(error)):
            raise translation from None
        reason = describe_reason(error)
        raise ServiceError(
            f"{location} cannot be read or written: {reason}.", "Check whether the lake's storage answers."
        ) from None
