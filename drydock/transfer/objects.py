"""Read and write S3 objects over HTTP, as any client does, even if this server itself has them."""

import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import BinaryIO, TypeVar

from boto3.exceptions import RetriesExceededError
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as BotoConnectionError

from drydock.transfer.clients import get_shared_client
from drydock.transfer.walk import EntryKind, walk_folder

T = TypeVar("T")

# Number of files of one channel or folder that are transferred at the same time.
CONCURRENT_TRANSFERS = 8

# One thread per object, since up to CONCURRENT_TRANSFERS objects are transferred at the same time.
_SINGLE_THREAD = TransferConfig(use_threads=False)
# Errors without a response, such as a refused connection: an S3 server other than drydock may be restarting.
_NO_RESPONSE_ERRORS = (RetriesExceededError, HTTPClientError, BotoConnectionError)
_THROTTLED = 429
# The pause between two attempts doubles, up to this number of seconds.
_MAX_PAUSE_S = 4.0


def split_uri(uri: str) -> tuple[str, str]:
    """Return the bucket and the key (or prefix) of an S3 URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def join_uri(base: str, *names: str) -> str:
    """Return a URI with names appended as path segments, one slash between them."""
    return "/".join([base.rstrip("/"), *names])


class ObjectStore:
    """The S3 objects of one account, accessed over HTTP. Safe for several threads.

    Each method retries while S3 does not answer, or answers with status 429 or 5xx. After retry_s seconds it raises the
    last error: botocore's ClientError, or if S3 did not answer, RetriesExceededError (boto3), HTTPClientError or
    ConnectionError (botocore).

    Args:
        url: URL of the S3 server.
        account_id: The account that owns the buckets.
        region: The region to sign requests for.
        retry_s: Seconds for which a request is retried if its error may be temporary; 0: only botocore retries (twice).
    """

    def __init__(self, url: str, account_id: str, region: str, retry_s: float) -> None:
        self._location, self._retry_s = (url, account_id, region), retry_s
        self._client = get_shared_client(*self._location)

    def get_store_without_retries(self) -> "ObjectStore":
        """Return the same store with `retry_s` 0, for callers that cannot wait for S3. botocore still retries twice."""
        return ObjectStore(*self._location, retry_s=0.0)

    def check_bucket(self, uri: str) -> None:
        """Check that the bucket of a URI exists.

        Raises:
            ClientError: The bucket does not exist (NoSuchBucket), or S3 failed. A retry can help.
        """
        bucket, _ = split_uri(uri)
        self._retry(lambda: self._client.list_objects_v2(Bucket=bucket, MaxKeys=1))

    def list_etags(self, uri: str) -> dict[str, str]:
        """Return the keys that begin with a URI's prefix, in key order, with their ETags; without keys that end with /.

        Raises:
            ClientError: The bucket does not exist, or S3 failed. A retry can help.
        """
        bucket, prefix = split_uri(uri)
        paginate = self._client.get_paginator("list_objects_v2").paginate

        def list_objects() -> dict[str, str]:
            items = (item for page in paginate(Bucket=bucket, Prefix=prefix) for item in page.get("Contents", []))
            return {item["Key"]: item["ETag"] for item in items if not item["Key"].endswith("/")}

        return self._retry(list_objects)

    def read_etag(self, uri: str) -> str | None:
        """Return the ETag of an object; None if it does not exist.

        Raises:
            ClientError: S3 failed. A retry can help.
        """
        bucket, key = split_uri(uri)
        try:
            return str(self._retry(lambda: self._client.head_object(Bucket=bucket, Key=key))["ETag"])
        except ClientError as error:
            if _get_http_status(error) == 404:
                return None
            raise

    def read(self, uri: str, max_bytes: int) -> bytes:
        """Return the bytes of an object.

        Raises:
            ClientError: The object does not exist, or S3 failed. A retry can help.
            ValueError: The object has more than max_bytes. A retry cannot help.
        """
        bucket, key = split_uri(uri)
        body = self._retry(lambda: bytes(self._client.get_object(Bucket=bucket, Key=key)["Body"].read(max_bytes + 1)))
        if len(body) > max_bytes:
            raise ValueError(f"{uri} has more than {max_bytes} bytes")
        return body

    def download(self, uri: str, path: Path) -> None:
        """Download an object to a file, which appears under its name only when it is complete.

        Raises:
            ValueError: The object does not exist. A retry cannot help.
            ClientError: S3 failed. A retry can help.
            OSError: The disk is full or not writable. A retry can help.
        """
        bucket, key = split_uri(uri)
        # A short name: s3transfer's own temporary name is longer than the file's name, perhaps too long for a file.
        partial_file = path.with_name(f".{uuid.uuid4().hex}.part")
        try:
            self._retry(lambda: self._client.download_file(bucket, key, str(partial_file), Config=_SINGLE_THREAD))
            os.replace(partial_file, path)
        except ClientError as error:
            if _get_http_status(error) == 404:
                raise ValueError(f"there is no object {uri}") from error
            raise
        finally:
            partial_file.unlink(missing_ok=True)

    def download_all(self, files: Mapping[str, Path]) -> None:
        """Download several objects at the same time, each as `download` does.

        Args:
            files: Maps the URI of each object to the path of its file.

        Raises:
            ValueError: An object does not exist. A retry cannot help.
            ClientError: S3 failed. A retry can help.
            OSError: The disk is full or not writable. A retry can help.
        """
        for folder in {path.parent for path in files.values()}:
            folder.mkdir(parents=True, exist_ok=True)
        _run_concurrently(lambda item: self.download(*item), files.items())

    def upload(self, path: Path, uri: str) -> None:
        """Upload a file to an object. Readers see the old or the new object, never a part of one.

        Raises:
            ClientError: The bucket does not exist, or S3 failed. A retry can help.
            OSError: The file cannot be read. A retry can help.
        """
        with path.open("rb") as stream:
            self.write(stream, uri)

    def write(self, stream: BinaryIO, uri: str) -> None:
        """Upload an open file from its start.

        Raises:
            ClientError: The bucket does not exist, or S3 failed. A retry can help.
            OSError: The file cannot be read. A retry can help.
        """
        bucket, key = split_uri(uri)

        def send() -> None:
            # A copy of the descriptor, since s3transfer closes the file, and a retry needs it again.
            with os.fdopen(os.dup(stream.fileno()), "rb") as file:
                file.seek(0)
                self._client.upload_fileobj(file, bucket, key, Config=_SINGLE_THREAD)

        self._retry(send)

    def upload_folder(self, folder: Path, uri: str) -> int:
        """Upload every file below a folder to an object below a URI. Return the number of files.

        Links that lead out of the folder or nowhere, links to folders, sockets, fifos and devices are left out.

        Raises:
            ClientError: The bucket does not exist, or S3 failed. A retry can help.
            OSError: A file cannot be read. A retry can help.
        """
        files = [entry for entry in walk_folder(folder) if entry.kind is EntryKind.FILE]
        _run_concurrently(lambda entry: self.upload(entry.path, join_uri(uri, entry.name)), files)
        return len(files)

    def delete(self, uri: str) -> None:
        """Delete an object. Idempotent.

        Raises:
            ClientError: S3 failed. A retry can help.
        """
        bucket, key = split_uri(uri)
        self._retry(lambda: self._client.delete_object(Bucket=bucket, Key=key))

    def _retry(self, call: Callable[[], T]) -> T:
        # botocore's own retries (`clients`) are not enough: a series of 503s uses up their quota for each client.
        deadline, pause_s = time.monotonic() + self._retry_s, 0.5
        while True:
            try:
                return call()
            except (ClientError, *_NO_RESPONSE_ERRORS) as error:
                if not is_outage(error) or time.monotonic() + pause_s > deadline:
                    raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)


def _get_http_status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def is_outage(error: Exception) -> bool:
    """Return whether a retry can help: S3 did not answer, or answered with status 429 or 5xx."""
    if isinstance(error, ClientError):
        return _get_http_status(error) >= 500 or _get_http_status(error) == _THROTTLED
    return isinstance(error, _NO_RESPONSE_ERRORS)


def _run_concurrently(action: Callable[[T], None], items: Iterable[T]) -> None:
    """Run an action for each item, several at a time. Raise the first error, and skip the items that have not begun."""
    with ThreadPoolExecutor(CONCURRENT_TRANSFERS, thread_name_prefix="transfer") as pool:
        try:
            for future in as_completed([pool.submit(action, item) for item in items]):
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
