"""Find the files of partitions; open files on this machine, in object stores or on the web, and unpack them."""

from __future__ import annotations

import fnmatch
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec.core
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from pipelines.errors import DataError, LeewayError, ServiceError, SpecError
from pipelines.ingestion.sources.addresses import is_http, redact
from pipelines.ingestion.sources.dates import DATE_PLACEHOLDER, fill_date
from pipelines.partitions import PartitionT
from pipelines.system.error_translation import is_disk_full
from pipelines.system.temporary_folders import make_temporary_folder

BLOCK_BYTES = 8 * 1024 * 1024
"""Bytes that one request reads from an object store."""
CODECS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
"""Maps each file extension to pyarrow's name of the compression."""


def find_partitions(pattern: str, partitions: Iterable[PartitionT]) -> list[PartitionT]:
    """Return those of `partitions` that have a file.

    Args:
        pattern: address with {date}.
        partitions: the partitions to look for.

    Raises:
        DataError: a web server refuses a request, for another reason than a missing file. A retry cannot help.
        SpecError: access is refused. A retry cannot help.
        ServiceError: the store does not answer. A retry can help.
    """
    if is_http(pattern):
        from pipelines.ingestion.sources.web.http_client import HttpClient

        return [partition for partition in partitions if HttpClient().exists(fill_date(pattern, partition))]
    any_date_pattern = DATE_PLACEHOLDER.sub(lambda match: re.sub(r"%-?[a-zA-Z]", "*", match[1] or "*"), pattern)
    # A name like %Y%m%d has become ***, but `**` is only allowed if it is the whole name of a folder.
    names = _glob(re.sub(r"(?<=[^/*])\*{2,}|\*{2,}(?=[^/*])", "*", any_date_pattern))
    return [
        partition for partition in partitions if fnmatch.filter(names, _strip_protocol(fill_date(pattern, partition)))
    ]


def list_files(address: str) -> list[str]:
    """Return the sorted addresses of the files that match an address with *. Return an address without * unchanged.

    Raises:
        DataError: no file matches. A retry cannot help.
        SpecError: access is refused; or the address has a *, and begins with http:// or https://. A retry cannot
            help.
        ServiceError: the store does not answer. A retry can help.
    """
    if "*" not in address:
        return [address]
    if is_http(address):
        raise SpecError(f"{redact(address)}: a web server lists no files.", "Name one file for each day, without *.")
    names = _glob(address)
    if not names:
        raise DataError(f"there is no {redact(address)}.")
    with translate_errors(redact(address)):
        file_system, _ = fsspec.core.url_to_fs(address)
        return [str(file_system.unstrip_protocol(name)) for name in names]


@contextmanager
def open_file(address: str, needs_seek: bool) -> Iterator[Any]:
    """Open a file for reading bytes. A file on a web server is downloaded first.

    Call it in a `with translate_errors(...)` block: errors of the file system and of S3 are raised as they are.

    Args:
        address: a path or URL.
        needs_seek: whether the reader seeks in the file. If so, a file in an object store is copied to this machine.
    """
    if is_http(address):
        from pipelines.ingestion.sources.web.http_client import HttpClient

        with make_temporary_folder() as folder:
            HttpClient().download(address, folder / "file")
            with (folder / "file").open("rb") as file:
                yield file
        return
    file_system, path = fsspec.core.url_to_fs(address)
    if isinstance(file_system, LocalFileSystem):
        with Path(path).open("rb") as file:
            yield file
        return
    with file_system.open(path, "rb", block_size=BLOCK_BYTES, cache_type="readahead") as file:
        if not needs_seek:
            yield file
            return
        with make_temporary_folder() as folder, (folder / "file").open("w+b") as local_file:
            shutil.copyfileobj(file, local_file, BLOCK_BYTES)
            yield local_file


@contextmanager
def unpack(file: Any, name: str) -> Iterator[Any]:
    """Yield the content of a .gz, .zst or .zip file; yield a file with another extension unchanged.

    Raises:
        DataError: a .zip does not have exactly one file, or cannot be unpacked. A retry cannot help.
    """
    suffix = Path(name).suffix.lower()
    if suffix in CODECS:
        with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), CODECS[suffix]) as content:
            yield content
    elif suffix == ".zip":
        with zipfile.ZipFile(file) as archive, _open_only_member(archive, name) as content:
            yield content
    else:
        yield file


@contextmanager
def translate_errors(origin: str) -> Iterator[None]:
    """Translate errors that the block raises into Leeway's errors, which name the file.

    Leeway's own errors, errors of a full disk and errors of other kinds are raised unchanged.

    Raises:
        DataError: the file does not exist, or is damaged. A retry cannot help.
        SpecError: access is refused, or there are no AWS credentials. A retry cannot help.
        ServiceError: the store failed. A retry can help.
    """
    try:
        yield
    except LeewayError:
        raise
    except FileNotFoundError:
        raise DataError(f"there is no {origin}.") from None
    except PermissionError:
        raise SpecError(f"access to {origin} is refused.", "Check the credentials in the environment.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{origin} is damaged or truncated: {error}.") from None
    except pa.ArrowException as error:
        raise DataError(f"{origin}: {error}.") from None
    except OSError as error:
        if is_disk_full(error):
            raise
        raise _translate_os_error(error, origin) from None
    except Exception as error:
        translation = _translate_client_error(error, origin)
        if translation is None:
            raise
        raise translation from None


def _open_only_member(archive: zipfile.ZipFile, name: str) -> Any:
    members = [
        member for member in archive.namelist() if not member.endswith("/") and not member.startswith("__MACOSX")
    ]
    if len(members) != 1:
        raise DataError(f"{name} has {len(members)} files in it: {', '.join(members[:5])}.", "It must have one file.")
    try:
        return archive.open(members[0])
    except (RuntimeError, NotImplementedError) as error:  # a password, or a compression that Python lacks
        raise DataError(f"{name} cannot be unpacked: {error}.") from None


def _strip_protocol(address: str) -> str:
    return str(fsspec.core.url_to_fs(address)[1])


def _glob(address: str) -> list[str]:
    with translate_errors(redact(address)):
        file_system, path = fsspec.core.url_to_fs(address)
        file_system.invalidate_cache()
        return sorted(str(name) for name in file_system.glob(path))


def _translate_os_error(error: OSError, origin: str) -> LeewayError:
    if error.errno is None and not isinstance(error, (TimeoutError, ConnectionError)):
        # pyarrow raises an OSError without errno for a stream that ends early, or has a wrong checksum.
        return DataError(f"{origin} is damaged or truncated: {error}.")
    if isinstance(error, (IsADirectoryError, NotADirectoryError)):
        return DataError(f"{origin} is not a file.")
    return ServiceError(f"{origin} cannot be read now: {error.strerror or type(error).__name__}.", "Run it again.")


def _translate_client_error(error: Exception, origin: str) -> LeewayError | None:
    """Translate an error of the S3 client, which is not an OSError; return None for other errors."""
    if not type(error).__module__.startswith(("botocore", "aiobotocore", "aiohttp")):
        return None
    if "Credential" in type(error).__name__ or "Profile" in type(error).__name__:
        return SpecError(
            f"{origin}: there are no AWS credentials.",
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
        )
    return ServiceError(f"{origin} does not answer ({type(error).__name__}).", "Check AWS_ENDPOINT_URL.")
