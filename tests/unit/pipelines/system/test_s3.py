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
def put(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], str]:
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

    def store(content: bytes) -> str:
        client.put_object(Bucket="bucket", Key="a/model.tar.gz", Body=content)
        return "s3://bucket/a/model.tar.gz"

    return store


def archive(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def device() -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo("tty")
    info.type = tarfile.CHRTYPE
    return info, b""


def file(name: str, content: bytes = b"hello") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


@pytest.fixture(params=["as it is", "before 3.11.4"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Python as it is, and one that has not the filter of tarfile: Debian 12's 3.11.2."""
    if request.param == "before 3.11.4":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    return str(request.param)


@pytest.mark.usefixtures("python")
def test_an_archive_is_a_folder_for_as_long_as_the_block_runs(put: Callable[[bytes], str]) -> None:
    with s3.open_folder(put(archive(file("model.ubj"), file("sub/x"))), "model") as folder:
        assert (folder / "model.ubj").read_bytes() == (folder / "sub/x").read_bytes() == b"hello"
    assert not folder.exists()


def test_a_local_folder_is_itself(tmp_path: Path) -> None:
    with s3.open_folder(str(tmp_path), "model") as folder:
        assert folder == tmp_path
    assert tmp_path.exists()
    with pytest.raises(DataError, match="does not exist"), s3.open_folder(str(tmp_path / "none"), "model"):
        pass


HOSTILE = {
    "leaves by dots": [file("../escaped")],
    "leaves by dots inside": [file("a/../../escaped")],
    "symlink that leaves": [link("out", "/tmp"), file("out/escaped")],
    "relative symlink that leaves": [link("out", "../.."), file("out/escaped")],
    "hard link that leaves": [link("pw", "../../../../../etc/passwd", tarfile.LNKTYPE)],
    "device": [device()],
}


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_refused(case: str, put: Callable[[bytes], str], tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match=r"model\.tar\.gz cannot be unpacked"),
        s3.open_folder(put(archive(*HOSTILE[case])), "model"),
    ):
        pass


@pytest.mark.usefixtures("python")
def test_an_absolute_name_stays_inside_or_is_refused(put: Callable[[bytes], str], tmp_path: Path) -> None:
    target = tmp_path / "escaped"
    place = put(archive(file(str(target))))
    try:
        with s3.open_folder(place, "model") as folder:
            assert list(folder.rglob("escaped"))
    except DataError:
        pass
    assert not target.exists()


def test_too_big_is_refused_before_it_fills_the_disk(
    put: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "MAX_BYTES", 1_000)
    with (
        pytest.raises(DataError, match="more than 1000 bytes"),
        s3.open_folder(put(archive(file("a", b"0" * 1_001))), "model"),
    ):
        pass
    with s3.open_folder(put(archive(file("a", b"0" * 1_000))), "model"):
        pass


def damaged() -> bytes:
    whole = bytearray(archive(file("a", os.urandom(200_000))))
    whole[100_000:100_050] = bytes(50)
    return bytes(whole)


BROKEN: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "not an archive": lambda: b"<html>busy</html>" * 100,
    "cut short": lambda: archive(file("a", os.urandom(200_000)))[:90_000],
    "damaged": damaged,
    "cut in the header": lambda: archive(file("a"))[:15],
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_archive_is_refused(case: str, put: Callable[[bytes], str]) -> None:
    with pytest.raises(DataError, match="cannot be unpacked"), s3.open_folder(put(BROKEN[case]()), "model"):
        pass


@pytest.mark.parametrize("place", ["s3://bucket/none.tar.gz", "s3://no-such-bucket/x.tar.gz"])
def test_what_is_not_there_is_bad_data(place: str, put: Any) -> None:
    with pytest.raises(DataError, match="does not exist"), s3.open_folder(place, "model"):
        pass


@pytest.mark.parametrize("place", ["s3://bucket", "s3:///x", "s3://"])
def test_a_place_that_names_no_object_is_refused(place: str, put: Any) -> None:
    with pytest.raises(DataError), s3.open_folder(place, "model"):
        pass


def test_a_server_that_is_down_is_said_to_be(
    put: Any, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ServiceError, match="AWS_ENDPOINT_URL"), s3.open_folder("s3://bucket/a/model.tar.gz", "model"):
        pass
