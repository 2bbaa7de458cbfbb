"""Open the output of a training job: a local folder, or an archive in S3, which is downloaded and unpacked."""

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

from pipelines.errors import DataError

MAX_BYTES = 8 * 1024**3
"""Maximum size of the unpacked content of an archive."""


@contextmanager
def open_folder(location: str, name: str) -> Iterator[Path]:
    """Yield a local folder with the content of `location`. If it is an archive in S3, download and unpack it first.

    Args:
        location: a folder, or the URI s3://BUCKET/KEY.tar.gz of an archive.
        name: name of the temporary folder to which the archive is unpacked; it is removed when the block ends.

    Raises:
        DataError: the folder or object does not exist, or the archive is damaged or unsafe. A retry cannot help.
        SpecError: AWS is not set up here: credentials are missing, for example. A retry cannot help.
        InvalidError: AWS denies the request. A retry cannot help.
        ServiceError: S3 does not answer, or fails. A retry can help.
    """
    if not location.startswith("s3://"):
        if not Path(location).is_dir():
            raise DataError(f"{location} does not exist.", "The step `train` writes it.")
        yield Path(location)
        return
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        archive = Path(folder) / "archive.tar.gz"
        _download(location, archive)
        _unpack(archive, Path(folder) / name, location)
        yield Path(folder) / name


def _download(uri: str, target: Path) -> None:
    import boto3
    from botocore.exceptions import ClientError

    from pipelines.system.aws_errors import translate_aws_errors

    parsed_uri = urlsplit(uri)
    bucket, key = parsed_uri.netloc, parsed_uri.path.lstrip("/")
    if not bucket or not key:
        raise DataError(f"{uri} names no object.", "Expected s3://BUCKET/KEY.")
    with translate_aws_errors("S3"):
        try:
            boto3.client("s3").download_file(bucket, key, str(target))
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("404", "NoSuchKey", "NoSuchBucket"):
                raise
            raise DataError(f"{uri} does not exist.", "Check whether the training job succeeded.") from None


def _unpack(archive: Path, folder: Path, origin: str) -> None:
    try:
        _check_integrity(archive)
        with tarfile.open(archive, "r:gz") as tar:
            members = tar.getmembers()
            if sum(member.size for member in members) > MAX_BYTES:
                raise DataError(f"{origin} unpacks to more than {MAX_BYTES} bytes.")
            _extract(tar, members, folder)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{origin} cannot be unpacked: {error}.") from None


def _extract(tar: tarfile.TarFile, members: list[tarfile.TarInfo], folder: Path) -> None:
    if hasattr(tarfile, "data_filter"):
        # The filter refuses absolute names, names with "..", links that leave the folder, and devices.
        tar.extractall(folder, members, filter="data")
        return
    # Python before 3.11.4, as in Debian 12, has no filter. Here all links are refused, because they are hard to check.
    for member in members:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(
                f"{member.name} is not a file or a folder inside the archive (links need Python 3.11.4)"
            )
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        member.mode = 0o755 if member.isdir() else 0o644
    tar.extractall(folder, members)  # noqa: S202 -- each member was checked


def _check_integrity(archive: Path) -> None:
    """Check the gzip checksum, which is at the end of the archive. tarfile does not read it, and would miss damage."""
    with gzip.open(archive) as content:
        while content.read(1024**2):
            pass
