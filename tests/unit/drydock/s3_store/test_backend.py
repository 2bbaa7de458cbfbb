"""Test S3 on the disk: its files, its records, and that a failed request changes nothing."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import FakeAcl, FakeGrant, FakeGrantee, LifecycleRule, S3Backend, s3_backends
from moto.utilities.utils import LowercaseDict
from werkzeug.test import Client, TestResponse

from drydock import encoding
from drydock.s3_store import backend
from drydock.s3_store.blobs import BlobDamaged, BlobFolder
from drydock.s3_store.middleware import LOCK_COUNT, find_lock_numbers
from drydock.store import Store


class Disk:
    """A data folder, and moto's S3 on it, without a server."""

    def __init__(self, folder: Path) -> None:
        self.objects, self.path = folder / "objects", folder / "store.sqlite"
        self.restart()

    def restart(self) -> None:
        """Load the folder as a server does at its start."""
        self.store = Store(self.path)
        self.client = Client(backend.install(self.store, self.objects)(DomainDispatcherApplication(create_backend_app)))

    def __call__(self, method: str, path: str, body: bytes = b"", **headers: str) -> TestResponse:
        signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20250101/us-east-1/s3/aws4_request, Signature=0"}
        others = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.open(path, method=method, data=body, headers={**signed, **others})

    def list_files(self) -> list[Path]:
        """List the files of the objects."""
        return list(self.objects.glob("*/*"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Return a data folder with a bucket."""
    disk = Disk(tmp_path)
    disk("PUT", "/bucket")
    yield disk
    # The registry belongs to the process. The next test must not see this folder.
    s3_backends.clear()
    s3_backends.bucket_accounts.clear()
    s3_backends.backend = S3Backend


def test_bytes_are_read_as_they_were_written(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path)
    for data in (b"", b"one", bytes(range(256)) * 999):
        assert blobs.read(blobs.write(data)) == data


@pytest.mark.parametrize("damage", [Path.unlink, lambda p: p.write_bytes(b"onE"), lambda p: p.write_bytes(b"on")])
def test_damaged_file_is_an_error(tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    blobs = BlobFolder(tmp_path)
    blob = blobs.write(b"one")
    damage(next(tmp_path.glob("*/*")))
    with pytest.raises(BlobDamaged, match=blob.name):
        blobs.read(blob)


def test_only_unused_files_are_deleted(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path)
    used, stray = blobs.write(b"used"), blobs.write(b"stray")
    assert blobs.delete_except({used.name}) == 1
    assert blobs.read(used) == b"used"
    with pytest.raises(BlobDamaged):
        blobs.read(stray)


def test_replaced_object_is_kept_if_its_old_file_cannot_be_deleted(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk("PUT", "/bucket/key", b"old")

    def fail(_: Path, missing_ok: bool = False) -> None:
        raise PermissionError("denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        assert disk("PUT", "/bucket/key", b"new").status_code == 200
    assert "cannot be deleted" in caplog.text and len(disk.list_files()) == 2
    disk.restart()
    assert disk("GET", "/bucket/key").data == b"new"
    assert len(disk.list_files()) == 1, "the next start deletes the old file"


@pytest.mark.parametrize(
    "value",
    [
        {"~": "bytes", "of": "not"},
        {1: [None, True, 0.5, "x"], "d": {}},
        b"\x00\xff",
        datetime(2026, 1, 2, 3, 4, 5, 6),
        datetime(2026, 1, 2, tzinfo=UTC),
    ],
)
def test_values_are_restored_from_text(value: Any) -> None:
    assert encoding.loads(encoding.dumps(value)) == value


def test_models_of_moto_are_restored_from_text() -> None:
    access = FakeAcl([FakeGrant([FakeGrantee("who")], ["READ"])])
    values = encoding.loads(encoding.dumps([access, LowercaseDict({"A": 1}), LifecycleRule(rule_id="r", prefix="p")]))
    assert values[0].grants[0].grantees == [FakeGrantee("who")]
    assert dict(values[1]) == {"a": 1}
    assert (type(values[2]), values[2].id) == (LifecycleRule, "r")


def test_values_that_cannot_be_restored_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot store a PosixPath"):
        encoding.dumps([Path()])
    with pytest.raises(KeyError):
        encoding.loads('{"~": "Popen", "of": {}}')


@pytest.mark.parametrize(
    ("method", "path", "count"),
    [
        ("PUT", "/bucket/key", 1),
        ("GET", "/bucket/a/b", 1),
        ("POST", "/bucket", LOCK_COUNT),
        ("PUT", "/bucket/", LOCK_COUNT),
        ("GET", "/bucket", 0),
        ("POST", "/", 0),  # a request of another service
    ],
)
def test_request_takes_only_the_locks_it_needs(method: str, path: str, count: int) -> None:
    assert len(find_lock_numbers({"REQUEST_METHOD": method, "PATH_INFO": path, "HTTP_HOST": "127.0.0.1:80"})) == count


def test_both_address_styles_use_the_same_lock() -> None:
    by_path = {"REQUEST_METHOD": "PUT", "PATH_INFO": "/bucket/key", "HTTP_HOST": "127.0.0.1:80"}
    by_host = {"REQUEST_METHOD": "PUT", "PATH_INFO": "/key", "HTTP_HOST": "bucket.s3.amazonaws.com"}
    assert find_lock_numbers(by_path) == find_lock_numbers(by_host)


@pytest.mark.parametrize(
    ("header", "key"), [("bucket/from%20x?versionId=1", "from x"), ("bucket/a%3Fb?versionId=1", "a?b")]
)
def test_copy_locks_its_source_too(header: str, key: str) -> None:
    target = {"REQUEST_METHOD": "PUT", "PATH_INFO": "/bucket/to", "HTTP_HOST": "127.0.0.1"}
    copy = {**target, "HTTP_X_AMZ_COPY_SOURCE": header}
    source = {"REQUEST_METHOD": "GET", "PATH_INFO": f"/bucket/{key}", "HTTP_HOST": "127.0.0.1"}
    assert find_lock_numbers(copy) == find_lock_numbers(target) | find_lock_numbers(source)


def test_bytes_are_only_in_the_files_of_current_versions(disk: Disk) -> None:
    for body in (b"old", b"new"):
        assert disk("PUT", "/bucket/key", body).status_code == 200
    assert [path.read_bytes() for path in disk.list_files()] == [b"new"]
    key = next(iter(s3_backends["123456789012"]["aws"].buckets["bucket"].keys.values()))
    assert key._value_buffer.closed and key.value == b"new"
    assert disk("DELETE", "/bucket/key").status_code == 204
    assert disk.list_files() == []


def test_next_start_deletes_a_file_without_a_row(disk: Disk) -> None:
    disk("PUT", "/bucket/key", b"stored")
    BlobFolder(disk.objects).write(b"its server was killed before it wrote the row")
    disk.restart()
    assert [path.read_bytes() for path in disk.list_files()] == [b"stored"]


def test_lock_of_moto_is_never_taken_inside_a_transaction(
    disk: Disk, watch_lock: Callable[[Store], list[bool]]
) -> None:
    lock_uses = watch_lock(disk.store)
    assert disk("PUT", "/bucket/key", b"one").status_code == disk("PUT", "/bucket/key", b"two").status_code == 200
    assert disk("DELETE", "/bucket/key").status_code == 204
    assert lock_uses and not any(lock_uses)


def test_refused_request_changes_nothing(disk: Disk) -> None:
    disk("PUT", "/bucket/key", b"old", x_amz_tagging="a=b")
    response = disk("PUT", "/bucket/key", b"new", x_amz_tagging="aws:x=y")
    assert (response.status_code, b"InvalidTag" in response.data) == (400, True)
    for _ in range(2):
        response = disk("GET", "/bucket/key")
        assert (response.data, response.headers["x-amz-tagging-count"]) == (b"old", "1")
        disk.restart()
    assert len(disk.list_files()) == 1


def test_old_object_stays_if_the_disk_has_no_space_for_the_bytes(disk: Disk) -> None:
    disk("PUT", "/bucket/key", b"old")
    disk.objects.rename(disk.objects.with_name("away"))
    response = disk("PUT", "/bucket/key", b"new")
    assert (response.status_code, b"InternalError" in response.data) == (500, True)
    disk.objects.with_name("away").rename(disk.objects)
    for _ in range(2):
        assert disk("GET", "/bucket/key").data == b"old"
        disk.restart()
    assert disk("PUT", "/bucket/key", b"new").status_code == 200


def test_old_object_stays_if_the_disk_has_no_space_for_the_row(disk: Disk) -> None:
    disk("PUT", "/bucket/key", b"old")
    with disk.store.transaction() as db:
        db.execute("PRAGMA max_page_count = 1")  # the present number of pages
    response = disk("PUT", "/bucket/key", b"new", x_amz_meta_large="x" * 20_000)
    assert (response.status_code, b"full" in response.data) == (500, True)
    for _ in range(2):
        assert disk("GET", "/bucket/key").data == b"old"
        disk.restart()
    assert [path.read_bytes() for path in disk.list_files()] == [b"old"]


def test_damaged_object_does_not_affect_others(disk: Disk) -> None:
    disk("PUT", "/bucket/key", b"whole")
    disk.list_files()[0].write_bytes(b"wholE")
    disk("PUT", "/bucket/other", b"other")
    assert disk("GET", "/bucket/key").status_code == 500
    assert disk("GET", "/bucket/other").data == b"other"
    assert disk("DELETE", "/bucket/key").status_code == 204


def test_incomplete_body_creates_no_object(disk: Disk) -> None:
    response = disk.client.put("/bucket/key", data=b"half", environ_overrides={"CONTENT_LENGTH": "10"})
    assert (response.status_code, b"IncompleteBody" in response.data) == (400, True)
    assert disk("GET", "/bucket/key").status_code == 404


def test_reset_deletes_everything(disk: Disk) -> None:
    disk("PUT", "/bucket/key", b"data")
    s3_backends["123456789012"]["aws"].reset()
    assert disk.list_files() == []
    disk.restart()
    assert disk("GET", "/bucket/key").status_code == 404


def test_only_an_empty_bucket_can_be_deleted(disk: Disk) -> None:
    disk("PUT", "/full")
    disk("PUT", "/full/key", b"data")
    assert [disk("DELETE", path).status_code for path in ("/bucket", "/full")] == [204, 409]
    disk.restart()
    assert [disk("GET", path).status_code for path in ("/bucket", "/full/key")] == [404, 200]
