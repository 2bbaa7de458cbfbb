"""S3 as the server itself uses it: through its own URL, as any client would."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
from boto3.session import Session
from botocore.config import Config

_CLIENT_LOCK = threading.Lock()


def split_uri(uri: str) -> tuple[str, str]:
    """Return (bucket, key or prefix) of an s3:// URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def join_uri(base: str, *names: str) -> str:
    """Return base with the names appended as path segments, one slash between each."""
    return "/".join([base.rstrip("/"), *names])


def local_name(key: str, prefix: str) -> str:
    """Return where below a channel's folder SageMaker puts an object that an S3Prefix matched.

    A prefix that names a folder (with or without its slash) gives paths below it; one that is a whole key, or
    ends within a name, gives the name.
    """
    rest = key[len(prefix) :]
    if not prefix or prefix.endswith("/"):
        return rest
    if rest.startswith("/"):
        return rest[1:]
    return key[prefix.rfind("/") + 1 :]


class ObjectStore:
    """The objects of one account, read and written over HTTP.

    Args:
        url: The server's own URL.
        account_id: The account whose buckets are meant.
        region: The region to sign for.
    """

    def __init__(self, url: str, account_id: str, region: str) -> None:
        with _CLIENT_LOCK:  # botocore's loaders are not thread-safe while a client is being made
            self._client = _client(url, account_id, region)

    def require_bucket(self, uri: str) -> None:
        """The bucket of uri exists.

        Raises:
            ClientError: It does not (NoSuchBucket), or S3 failed.
        """
        self._client.list_objects_v2(Bucket=split_uri(uri)[0], MaxKeys=1)

    def keys(self, uri: str) -> Iterator[str]:
        """Yield the keys that start with uri's prefix, folder markers left out.

        Raises:
            ClientError: NoSuchBucket, or S3 failed.
        """
        bucket, prefix = split_uri(uri)
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for item in page.get("Contents", []):
                if not item["Key"].endswith("/"):
                    yield item["Key"]

    def download_prefix(self, uri: str, folder: Path) -> list[Path]:
        """Every object under uri is a file below folder; returns the files.

        Raises:
            ClientError: NoSuchBucket, or S3 failed.
            ValueError: A key would land outside the folder.
            OSError: The disk is full or not writable.
        """
        bucket, prefix = split_uri(uri)
        files = []
        for key in self.keys(uri):
            target = (folder / local_name(key, prefix)).resolve()
            if not target.is_relative_to(folder.resolve()) or target == folder.resolve():
                raise ValueError(f"the key {key!r} points outside its folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            self._client.download_file(bucket, key, str(target))
            files.append(target)
        return files

    def download(self, uri: str, path: Path) -> None:
        """The object at uri is the file path.

        Raises:
            ClientError: There is no such object, or S3 failed.
        """
        self._client.download_file(*split_uri(uri), str(path))

    def upload(self, path: Path, uri: str) -> None:
        """The object at uri has the file's bytes; readers see the old or the new object, never a part.

        Raises:
            Boto3Error: NoSuchBucket, or S3 failed (S3UploadFailedError).
        """
        self._client.upload_file(str(path), *split_uri(uri))

    def delete(self, uri: str) -> None:
        """There is no object at uri. Idempotent."""
        bucket, key = split_uri(uri)
        self._client.delete_object(Bucket=bucket, Key=key)


def _client(url: str, account_id: str, region: str) -> Any:
    core = botocore.session.Session()
    core.set_config_variable("profile", None)
    session = Session(
        aws_access_key_id="drydock",
        aws_secret_access_key="drydock",  # noqa: S106  any will do: the server is this process
        region_name=region,
        botocore_session=core,
    )
    config = Config(
        proxies={},  # the server talks to itself: a proxy from the environment must not stand in between
        s3={"addressing_style": "path"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    client = session.client("s3", endpoint_url=url, config=config)

    def name_account(params: dict[str, Any], **_: Any) -> None:
        params["headers"]["x-moto-account-id"] = account_id

    client.meta.events.register("before-call.s3", name_account)
    return client
