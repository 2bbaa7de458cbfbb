"""Upload the data and the code of a job to S3, under keys that contain a digest of the content."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowFailException
from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import call_with_retries, format_error_line, get_http_status, is_transient
from leeway.hooks.step.hook import Logger
from pipelines.code_files import find_code_file, locate_bundle

T = TypeVar("T")
REQUIREMENTS_FILE = "requirements.txt"
"""Name of the file whose packages SageMaker's images install, if it is at the root of the source code."""


class S3Uploader:
    """Upload channels and source bundles to one bucket. Idempotent: what S3 already has is not uploaded again.

    While S3 does not answer, every request is retried; see `call_with_retries`.

    Args:
        s3: the Amazon provider's hook of S3.
        bucket: name of the bucket.
        prefix: key prefix in the bucket.
        log: log of the task.
    """

    def __init__(self, s3: S3Hook, bucket: str, prefix: str, log: Logger) -> None:
        self.s3, self.bucket, self.prefix, self.log = s3, bucket, prefix, log

    def check_bucket(self) -> None:
        """Check, with one request, that the bucket exists and may be used.

        Raises:
            AirflowFailException: the bucket does not exist or may not be used. A retry cannot help.
            ClientError, BotoCoreError: S3 does not answer. A retry can help.
        """
        self._has_objects(self.bucket, self.prefix)

    def check_channels(self, channels: Iterable[str]) -> None:
        """Check, with one request each, that the bucket and every channel exist and that no channel is empty.

        Args:
            channels: folders or s3:// prefixes.

        Raises:
            AirflowFailException: the bucket or a channel does not exist or may not be used, or a channel is empty. A
                retry cannot help.
            ClientError, BotoCoreError: S3 does not answer. A retry can help.
        """
        self.check_bucket()
        for channel in channels:
            bucket, _, prefix = channel.removeprefix("s3://").partition("/")
            if not channel.startswith("s3://"):
                _list_files(channel)
            elif not self._has_objects(bucket, prefix):
                raise AirflowFailException(f"the channel {channel} is empty.")

    def check_shards(self, name: str, channel: str, instance_count: int) -> None:
        """Check that each of the instances gets an object of a channel that is divided among them.

        SageMaker starts and bills an instance that gets no data.

        Args:
            name: name of the channel.
            channel: folder or s3:// prefix.
            instance_count: number of instances.

        Raises:
            AirflowFailException: the channel has fewer objects than there are instances. A retry cannot help.
        """
        if channel.startswith("s3://"):
            bucket, _, prefix = channel.removeprefix("s3://").partition("/")
            count = len(self._call(lambda: self.s3.list_keys(bucket, prefix, max_items=instance_count)))
        else:
            count = len(list(_list_files(channel)))
        if count < instance_count:
            raise AirflowFailException(
                f"the channel {name} has {count} objects, which are divided among {instance_count} instances: give "
                "more objects or fewer instances, or take the channel out of sharded_channels."
            )

    def upload_channel(self, channel: str) -> str:
        """Upload a folder; return its s3:// prefix. An s3:// prefix is returned as it is.

        Raises:
            AirflowFailException: the folder does not exist or is empty. A retry cannot help.
        """
        if channel.startswith("s3://"):
            return channel
        files = {str(path.relative_to(channel)): path for path in _list_files(channel)}
        prefix = f"{self.prefix}/features/{_compute_digest(files)}/"
        sizes = self._list_sizes(prefix)
        for name, path in files.items():
            if sizes.get(f"{prefix}{name}") != path.stat().st_size:
                self._upload_file(path, f"{prefix}{name}")
        return f"s3://{self.bucket}/{prefix}"

    def upload_bundle(self, project: Path, entry_point: str, listing: str) -> str:
        """Upload a sourcedir.tar.gz with the entry point at its root and the listed files under their paths.

        A requirements.txt that is listed is put at the root, too: there, SageMaker's images install its packages.

        Args:
            project: folder of the project.
            entry_point: path of the script, relative to the project. If the project has no copy of Leeway's code, a
                path below pipelines/ names a file of the installed Leeway.
            listing: path of a text file that lists more files, in the format that `pipelines.code_files.locate_bundle`
                reads. The path has the same form as `entry_point`.

        Returns:
            The s3:// address.

        Raises:
            AirflowFailException: a file does not exist. A retry cannot help.
        """
        script, listing_path = find_code_file(entry_point, project), find_code_file(listing, project)
        # A listing that does not exist is reported with the other missing files.
        files = locate_bundle(listing_path, project) if listing_path.is_file() else {listing: listing_path}
        archive_files = {script.name: script} | {
            REQUIREMENTS_FILE if path.name == REQUIREMENTS_FILE else name: path for name, path in files.items()
        }
        missing_paths = [str(path) for path in archive_files.values() if not path.is_file()]
        if missing_paths:
            raise AirflowFailException(f"source files of the training do not exist: {', '.join(missing_paths)}.")
        archive = _build_archive(archive_files)
        key = f"{self.prefix}/code/{hashlib.sha256(archive).hexdigest()[:20]}/sourcedir.tar.gz"
        if not self._call(lambda: self.s3.check_for_key(key, self.bucket)):
            self._call(lambda: self.s3.load_bytes(archive, key, self.bucket, replace=True))
        return f"s3://{self.bucket}/{key}"

    def _list_sizes(self, prefix: str) -> dict[str, int]:
        """Return the size in bytes of each object below a prefix, by its key.

        A file whose key is listed with the file's size is not uploaded again: the prefix contains a digest of all names
        and contents, and S3 lists an object only after its upload is complete. An extra object that marks a complete
        upload cannot be used instead, because SageMaker would read it as data.
        """
        objects = self._call(lambda: self.s3.get_file_metadata(prefix, self.bucket))
        return {str(entry["Key"]): int(entry["Size"]) for entry in objects}

    def _has_objects(self, bucket: str, prefix: str) -> bool:
        """Return whether a bucket has objects below a prefix; raise an error if the bucket cannot be used.

        The provider's `check_for_bucket` is not used, because it returns False after any error, even if S3 does not
        answer.
        """
        client = self.s3.get_conn()
        try:
            response = self._call(lambda: client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1))
        except ClientError as error:
            if is_transient(error):
                raise
            if get_http_status(error) == 404:
                raise AirflowFailException(f"the bucket {bucket} does not exist.") from None
            raise AirflowFailException(f"the bucket {bucket} cannot be used: {format_error_line(error)}") from None
        return bool(response.get("KeyCount"))

    def _upload_file(self, path: Path, key: str) -> None:
        self._call(lambda: self.s3.load_file(str(path), key, self.bucket, replace=True))

    def _call(self, call: Callable[[], T]) -> T:
        return call_with_retries(call, self.log, "S3")


def _list_files(folder: str) -> list[Path]:
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    if not files:
        raise AirflowFailException(f"channel folder {folder} does not exist or is empty.")
    return files


def _compute_digest(files: dict[str, Path]) -> str:
    """Return 20 hex digits of the SHA-256 of the names and contents of files."""
    digest = hashlib.sha256()
    for name, path in files.items():
        with path.open("rb") as file:
            digest.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()[:20]


def _build_archive(archive_files: dict[str, Path]) -> bytes:
    """Return a tar.gz of files, without times and owners, so that equal names and contents give equal bytes."""
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w") as tar:
        for name, path in sorted(archive_files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                tar.addfile(info, file)
    return gzip.compress(tar_bytes.getvalue(), mtime=0)
