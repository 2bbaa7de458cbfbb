"""Test how an archive in S3 is unpacked, and which archives are refused."""

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DataError, ServiceError
from pipelines.system import s3


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def store_archive(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], str]:
    """Return the function that stores the content of an archive in S3 and returns its address."""
    import boto3

    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="bucket")

    def put_object(content: bytes) -> str:
        client.put_object(Bucket="bucket", Key="a/model.tar.gz", Body=content)
        return "s3://bucket/a/model.tar.gz"

    return put_object


def build_archive(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def build_link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def build_device() -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo("tty")
    info.type = tarfile.CHRTYPE
    return info, b""


def build_file(name: str, content: bytes = b"hello") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


@pytest.fixture(params=["this version", "before 3.11.4"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the version of Python: this one, or one without the filter of tarfile, such as 3.11.2 of Debian 12."""
    if request.param == "before 3.11.4":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    return str(request.param)


@pytest.mark.usefixtures("python")
def test_an_archive_is_a_folder_until_the_block_ends(store_archive: Callable[[bytes], str]) -> None:
    with s3.open_folder(store_archive(build_archive(build_file("model.ubj"), build_file("sub/x"))), "model") as folder:
        assert (folder / "model.ubj").read_bytes() == (folder / "sub/x").read_bytes() == b"hello"
    assert not folder.exists()


def test_a_local_folder_is_used_directly(tmp_path: Path) -> None:
    with s3.open_folder(str(tmp_path), "model") as folder:
        assert folder == tmp_path
    assert tmp_path.exists()
    with pytest.raises(DataError, match="does not exist"), s3.open_folder(str(tmp_path / "none"), "model"):
        pass


HOSTILE_MEMBERS = {
    "leaves by dots": [build_file("../escaped")],
    "leaves by dots inside": [build_file("a/../../escaped")],
    "symlink that leaves": [build_link("out", "/tmp"), build_file("out/escaped")],
    "relative symlink that leaves": [build_link("out", "../.."), build_file("out/escaped")],
    "hard link that leaves": [build_link("pw", "../../../../../etc/passwd", tarfile.LNKTYPE)],
    "device": [build_device()],
}


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize("case", HOSTILE_MEMBERS)
def test_refuses_a_hostile_archive(case: str, store_archive: Callable[[bytes], str], tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match=r"model\.tar\.gz cannot be unpacked"),
        s3.open_folder(store_archive(build_archive(*HOSTILE_MEMBERS[case])), "model"),
    ):
        pass


@pytest.mark.usefixtures("python")
def test_a_file_with_an_absolute_name_stays_inside_or_is_refused(
    store_archive: Callable[[bytes], str], tmp_path: Path
) -> None:
    target = tmp_path / "escaped"
    address = store_archive(build_archive(build_file(str(target))))
    try:
        with s3.open_folder(address, "model") as folder:
            assert list(folder.rglob("escaped"))
    except DataError:
        pass
    assert not target.exists()


def test_refuses_an_archive_that_is_too_big_before_it_fills_the_disk(
    store_archive: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "MAX_BYTES", 1_000)
    with (
        pytest.raises(DataError, match="more than 1000 bytes"),
        s3.open_folder(store_archive(build_archive(build_file("a", b"0" * 1_001))), "model"),
    ):
        pass
    with s3.open_folder(store_archive(build_archive(build_file("a", b"0" * 1_000))), "model"):
        pass


def build_damaged_archive() -> bytes:
    content = bytearray(build_archive(build_file("a", os.urandom(200_000))))
    content[100_000:100_050] = bytes(50)
    return bytes(content)


BROKEN_ARCHIVES: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "not an archive": lambda: b"<html>busy</html>" * 100,
    "cut short": lambda: build_archive(build_file("a", os.urandom(200_000)))[:90_000],
    "damaged": build_damaged_archive,
    "cut in the header": lambda: build_archive(build_file("a"))[:15],
}


@pytest.mark.parametrize("case", BROKEN_ARCHIVES)
def test_refuses_a_broken_archive(case: str, store_archive: Callable[[bytes], str]) -> None:
    with (
        pytest.raises(DataError, match="cannot be unpacked"),
        s3.open_folder(store_archive(BROKEN_ARCHIVES[case]()), "model"),
    ):
        pass


@pytest.mark.parametrize("address", ["s3://bucket/none.tar.gz", "s3://no-such-bucket/x.tar.gz"])
def test_refuses_an_object_that_does_not_exist(address: str, store_archive: Any) -> None:
    with pytest.raises(DataError, match="does not exist"), s3.open_folder(address, "model"):
        pass


@pytest.mark.parametrize("address", ["s3://bucket", "s3:///x", "s3://"])
def test_refuses_an_address_without_an_object(address: str, store_archive: Any) -> None:
    with pytest.raises(DataError), s3.open_folder(address, "model"):
        pass


def test_an_error_says_that_the_server_is_down(
    store_archive: Any, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # boto3 waits up to twelve seconds between its attempts
    with pytest.raises(ServiceError, match="AWS_ENDPOINT_URL"), s3.open_folder("s3://bucket/a/model.tar.gz", "model"):
        pass
