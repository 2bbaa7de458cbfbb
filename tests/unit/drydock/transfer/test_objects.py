"""Test the server's own access to S3."""

import os
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError, ReadTimeoutError

from drydock.transfer.clients import get_shared_client
from drydock.transfer.objects import ObjectStore, is_outage, join_uri, split_uri


def test_splits_and_joins_uris() -> None:
    assert split_uri("s3://bucket/a/b") == ("bucket", "a/b")
    assert split_uri("s3://bucket") == ("bucket", "")
    assert join_uri("s3://bucket/a/", "b", "c") == join_uri("s3://bucket/a", "b", "c") == "s3://bucket/a/b/c"


def test_a_client_is_created_once_per_location() -> None:
    places = [("http://127.0.0.1:1", account, "us-east-1") for account in ("1" * 12, "1" * 12, "2" * 12)]
    first, same, other = [get_shared_client(*place) for place in places]
    assert first is same and first is not other


@pytest.mark.parametrize("size", [0, 5, 20_000_000])
def test_uploads_and_downloads_a_file(s3: Any, objects: ObjectStore, tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "it").write_bytes(content)
    objects.upload(tmp_path / "it", s3.build_uri("x/it"))
    objects.download(s3.build_uri("x/it"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content == s3.get("x/it")
    assert sorted(os.listdir(tmp_path)) == ["back", "it"]


def test_downloads_a_file_with_a_long_name(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    name = "ü" * 127
    s3.put(name, b"1")
    objects.download(s3.build_uri(name), tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"1"


def test_the_error_names_a_missing_object(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no object s3://bucket-\w+/none"):
        objects.download(s3.build_uri("none"), tmp_path / "none")
    assert os.listdir(tmp_path) == []
    assert objects.read_etag(s3.build_uri("none")) is None


def test_a_failed_download_leaves_no_partial_file(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        objects.download(s3.put("it", b"1"), tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


def test_read_has_a_size_limit(s3: Any, objects: ObjectStore) -> None:
    uri = s3.put("it", b"12345")
    assert objects.read(uri, 5) == b"12345"
    with pytest.raises(ValueError, match="more than 4 bytes"):
        objects.read(uri, 4)


def test_retries_temporary_errors(
    s3: Any, objects: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # the pauses of botocore and of the store
    (tmp_path / "it").write_bytes(b"content")
    s3.app.failures_left = 8  # more than botocore's own retries
    objects.upload(tmp_path / "it", s3.build_uri("it"))
    assert s3.app.failure_count == 8 and s3.get("it") == b"content"
    s3.app.failures_left = 8
    objects.download(s3.build_uri("it"), tmp_path / "back")
    assert s3.app.failure_count == 16 and (tmp_path / "back").read_bytes() == b"content"


def test_without_retries_fails_at_once(s3: Any, objects: ObjectStore) -> None:
    s3.app.failures_left = 100
    with pytest.raises(ClientError, match=r"SlowDown|503"):
        objects.get_store_without_retries().list_etags(s3.build_uri(""))
    assert s3.app.failure_count < 10


def test_does_not_retry_permanent_errors(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "it").touch()
    with pytest.raises(ClientError, match="NoSuchBucket"):
        objects.upload(tmp_path / "it", "s3://no-such-bucket-here/it")
    assert s3.app.writes.count("PUT it") == 1


def test_uploads_a_folder_without_special_files(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a").write_text("a")
    (folder / "link").symlink_to("sub/a")
    (folder / "out").symlink_to("/etc/passwd")
    os.mkfifo(folder / "fifo")
    assert objects.upload_folder(folder, s3.build_uri("to/")) == 2
    assert s3.list_keys() == ["to/link", "to/sub/a"] and s3.get("to/link") == b"a"


def test_the_first_error_cancels_the_other_transfers(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    uris = [s3.put(f"{number}") for number in range(20)]
    files = {uri: tmp_path / uri.rpartition("/")[2] for uri in [s3.build_uri("none"), *uris]}
    with pytest.raises(ValueError, match="no object"):
        objects.download_all(files)
    objects.download_all({uri: files[uri] for uri in uris})
    assert len(os.listdir(tmp_path)) == 20


def make_client_error(status: int) -> ClientError:
    """Return S3's error with an HTTP status."""
    response: Any = {"Error": {"Code": "x"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "GetObject")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (make_client_error(503), True),
        (make_client_error(429), True),
        (EndpointConnectionError(endpoint_url="http://s3"), True),
        (ReadTimeoutError(endpoint_url="http://s3"), True),
        (make_client_error(404), False),
        (make_client_error(403), False),
        (ParamValidationError(report="Invalid bucket name"), False),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_distinguishes_an_outage_from_a_wrong_request(error: Exception, expected: bool) -> None:
    assert is_outage(error) == expected
