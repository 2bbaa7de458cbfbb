"""S3 as the server itself uses it: through its own URL, as any client would."""

import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import BinaryIO, TypeVar

from boto3.exceptions import RetriesExceededError
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from drydock.transfer.clients import shared_client
from drydock.transfer.walk import Kind, walk

T = TypeVar("T")

# Files on their way at once, of one channel or folder: 1,000 small ones do not wait for one another.
TRANSFERS = 8

# One thread for one object: TRANSFERS of them may be under way already.
_ALONE = TransferConfig(use_threads=False)
# What may be better in a moment. A refused connection is not among it: the server is this process, and it ends.
_PASSING = (
    RetriesExceededError,
    ConnectionClosedError,
    ConnectTimeoutError,
    ReadTimeoutError,
    ResponseStreamingError,
)
_THROTTLED = 429
_LAST_PAUSE_S = 4.0


def split_uri(uri: str) -> tuple[str, str]:
    """Return (bucket, key or prefix) of an s3:// URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def join_uri(base: str, *names: str) -> str:
    """Return base with the names appended as path segments, one slash between each."""
    return "/".join([base.rstrip("/"), *names])


class ObjectStore:
    """The objects of one account, read and written over HTTP. Threads may share it.

    Each method waits where S3 answers 5xx or is slow, and fails with the last answer when patience_s have passed.

    Args:
        url: The server's own URL.
        account_id: The account whose buckets are meant.
        region: The region to sign for.
        patience_s: Seconds for which a call that fails for a passing reason is made again.
    """

    def __init__(self, url: str, account_id: str, region: str, patience_s: float) -> None:
        self._place, self._patience_s = (url, account_id, region), patience_s
        self._client = shared_client(*self._place)

    def hasty(self) -> "ObjectStore":
        """Return the same store for who cannot wait: it fails within seconds."""
        return ObjectStore(*self._place, patience_s=0.0)

    def require_bucket(self, uri: str) -> None:
        """The bucket of uri exists.

        Raises:
            ClientError: It does not (NoSuchBucket), or S3 failed.
        """
        bucket, _ = split_uri(uri)
        self._patiently(lambda: self._client.list_objects_v2(Bucket=bucket, MaxKeys=1))

    def etags(self, uri: str) -> dict[str, str]:
        """Return the keys that start with uri's prefix, in key order, with their ETags; folder markers left out.

        Raises:
            ClientError: NoSuchBucket, or S3 failed.
        """
        bucket, prefix = split_uri(uri)
        pages = self._client.get_paginator("list_objects_v2").paginate

        def look() -> dict[str, str]:
            items = (item for page in pages(Bucket=bucket, Prefix=prefix) for item in page.get("Contents", []))
            return {item["Key"]: item["ETag"] for item in items if not item["Key"].endswith("/")}

        return self._patiently(look)

    def etag(self, uri: str) -> str | None:
        """Return the ETag of the object at uri; None where there is none.

        Raises:
            ClientError: S3 failed.
        """
        bucket, key = split_uri(uri)
        try:
            return str(self._patiently(lambda: self._client.head_object(Bucket=bucket, Key=key))["ETag"])
        except ClientError as error:
            if _status(error) == 404:
                return None
            raise

    def read(self, uri: str, max_bytes: int) -> bytes:
        """Return the bytes of the object at uri.

        Raises:
            ClientError: There is no such object, or S3 failed.
            ValueError: It has more than max_bytes.
        """
        bucket, key = split_uri(uri)
        body = self._patiently(
            lambda: bytes(self._client.get_object(Bucket=bucket, Key=key)["Body"].read(max_bytes + 1))
        )
        if len(body) > max_bytes:
            raise ValueError(f"{uri} has more than {max_bytes} bytes")
        return body

    def download(self, uri: str, path: Path) -> None:
        """The object at uri is the file path, which is not there before it is whole.

        Raises:
            ValueError: There is no such object.
            ClientError: S3 failed.
            OSError: The disk is full or not writable.
        """
        bucket, key = split_uri(uri)
        # A short name of our own: s3transfer's temporary one is longer than the file's, and can be too long.
        part = path.with_name(f".{uuid.uuid4().hex}.part")
        try:
            self._patiently(lambda: self._client.download_file(bucket, key, str(part), Config=_ALONE))
            os.replace(part, path)
        except ClientError as error:
            if _status(error) == 404:
                raise ValueError(f"there is no object {uri}") from error
            raise
        finally:
            part.unlink(missing_ok=True)

    def download_all(self, files: Mapping[str, Path]) -> None:
        """Every object is a file: URIs and paths, as `download` does it, several at a time.

        Raises:
            ValueError: One of the objects is not there.
            ClientError: S3 failed.
            OSError: The disk is full or not writable.
        """
        for folder in {path.parent for path in files.values()}:
            folder.mkdir(parents=True, exist_ok=True)
        _all(lambda item: self.download(*item), files.items())

    def upload(self, path: Path, uri: str) -> None:
        """The object at uri has the file's bytes; readers see the old or the new object, never a part.

        Raises:
            ClientError: NoSuchBucket, or S3 failed.
            OSError: The file cannot be read.
        """
        with path.open("rb") as stream:
            self.write(stream, uri)

    def write(self, stream: BinaryIO, uri: str) -> None:
        """As `upload`, of an open file, from its start."""
        bucket, key = split_uri(uri)

        def send() -> None:
            # A copy of the descriptor: s3transfer closes what it is given, and the next try needs it again.
            with os.fdopen(os.dup(stream.fileno()), "rb") as again:
                again.seek(0)
                self._client.upload_fileobj(again, bucket, key, Config=_ALONE)

        self._patiently(send)

    def upload_folder(self, folder: Path, uri: str) -> int:
        """Every file below folder is an object below uri; returns how many.

        Links out of the folder, sockets and the like are left out.

        Raises:
            ClientError: NoSuchBucket, or S3 failed.
            OSError: A file cannot be read.
        """
        files = [entry for entry in walk(folder) if entry.kind is Kind.FILE]
        _all(lambda entry: self.upload(entry.path, join_uri(uri, entry.name)), files)
        return len(files)

    def delete(self, uri: str) -> None:
        """There is no object at uri. Idempotent."""
        bucket, key = split_uri(uri)
        self._patiently(lambda: self._client.delete_object(Bucket=bucket, Key=key))

    def _patiently(self, call: Callable[[], T]) -> T:
        # Not botocore's own retries: its standard mode has a quota for each client, which a spell of 503s uses up.
        ends, pause_s = time.monotonic() + self._patience_s, 0.5
        while True:
            try:
                return call()
            except (ClientError, *_PASSING) as error:
                if not _is_passing(error) or time.monotonic() + pause_s > ends:
                    raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _is_passing(error: Exception) -> bool:
    return not isinstance(error, ClientError) or _status(error) >= 500 or _status(error) == _THROTTLED


def _all(action: Callable[[T], None], items: Iterable[T]) -> None:
    """Do the action on every item, several at a time; the first failure is raised, and what has not begun is left."""
    with ThreadPoolExecutor(TRANSFERS, thread_name_prefix="transfer") as pool:
        try:
            for done in as_completed([pool.submit(action, item) for item in items]):
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
