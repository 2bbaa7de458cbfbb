"""Fetching what a training job left in S3."""

from __future__ import annotations

import gzip
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from pipelines.errors import DataError, ServiceError

MAX_BYTES = 8 * 1024**3
"""Most bytes that an archive may unpack to."""


@contextmanager
def open_folder(place: str, name: str) -> Iterator[Path]:
    """The folder that `place` names: itself, or the content of an s3://BUCKET/KEY.tar.gz for as long as the block runs.

    Args:
        place: folder, or s3:// address of a tar.gz.
        name: of the folder that is made for the content.

    Raises:
        DataError: there is no such folder or object, or the archive is not to be trusted.
        ServiceError: S3 does not answer. A retry can help.
    """
    if not place.startswith("s3://"):
        if not Path(place).is_dir():
            raise DataError(f"{place} is not there.", "The step `train` writes it.")
        yield Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        archive = Path(folder) / "archive.tar.gz"
        _download(place, archive)
        _unpack(archive, Path(folder) / name, place)
        yield Path(folder) / name


def _download(uri: str, target: Path) -> None:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    parts = urlsplit(uri)
    bucket, key = parts.netloc, parts.path.lstrip("/")
    if not bucket or not key:
        raise DataError(f"{uri} names no object.", "s3://BUCKET/KEY is wanted.")
    try:
        boto3.client("s3").download_file(bucket, key, str(target))
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in ("404", "NoSuchKey", "NoSuchBucket"):
            raise DataError(f"{uri} is not there.", "Did the training job end well?") from None
        raise ServiceError(f"S3 refused {uri}: {error}.") from None
    except BotoCoreError as error:
        raise ServiceError(f"S3 does not answer: {error}.", "Is AWS_ENDPOINT_URL right, and drydock up?") from None


def _unpack(archive: Path, folder: Path, origin: str) -> None:
    try:
        _check_integrity(archive)
        with tarfile.open(archive, "r:gz") as tar:
            members = tar.getmembers()
            if sum(one.size for one in members) > MAX_BYTES:
                raise DataError(f"{origin} unpacks to more than {MAX_BYTES} bytes.")
            _extract(tar, members, folder)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{origin} cannot be unpacked: {error}.") from None


def _extract(tar: tarfile.TarFile, members: list[tarfile.TarInfo], folder: Path) -> None:
    if hasattr(tarfile, "data_filter"):
        # It refuses absolute names, names with "..", links that leave the folder, devices.
        tar.extractall(folder, members, filter="data")
        return
    # Python before 3.11.4, which Debian 12 has: links, which are hard to judge, are refused too.
    for one in members:
        path = PurePosixPath(one.name)
        if path.is_absolute() or ".." in path.parts or not (one.isfile() or one.isdir()):
            raise tarfile.TarError(f"{one.name} is no file or folder below it (links need Python 3.11.4)")
        one.uid, one.gid, one.uname, one.gname = os.getuid(), os.getgid(), "", ""
        one.mode = 0o755 if one.isdir() else 0o644
    tar.extractall(folder, members)  # noqa: S202 -- each was looked at


def _check_integrity(archive: Path) -> None:
    """Reads to the end, where gzip keeps its checksum: tarfile stops before, so a damaged model would pass."""
    with gzip.open(archive) as content:
        while content.read(1024**2):
            pass
