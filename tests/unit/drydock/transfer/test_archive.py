"""Test archives."""

import errno
import io
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

from drydock.transfer import archive


def folder(root: Path, names: list[str], moment: int) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"content of {name}")
        os.utime(root / name, (moment, moment))
    return root


@pytest.fixture(params=["as it is", "before 3.11.4"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Use this Python, and one without the filters of tarfile, as Debian 12's 3.11.2."""
    if request.param == "before 3.11.4":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    return str(request.param)


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    names = ["b.txt", "a/c.txt", "a/b.txt"]
    for number, order in enumerate([names, names[::-1]]):
        archive.pack(folder(tmp_path / str(number), order, 1000 * number), tmp_path / f"{number}.tar.gz")
    assert (tmp_path / "0.tar.gz").read_bytes() == (tmp_path / "1.tar.gz").read_bytes()
    (tmp_path / "1" / "b.txt").write_text("other")
    archive.pack(tmp_path / "1", tmp_path / "1.tar.gz")
    assert (tmp_path / "0.tar.gz").read_bytes() != (tmp_path / "1.tar.gz").read_bytes()


@pytest.mark.usefixtures("python")
def test_unpacks_what_was_packed(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", ["a/b.txt", "run.sh"], 1)
    (source / "run.sh").chmod(0o700)
    (source / "empty").mkdir()
    archive.pack(source, tmp_path / "it.tar.gz")
    (tmp_path / "out").mkdir()
    archive.unpack(tmp_path / "it.tar.gz", tmp_path / "out")
    assert (tmp_path / "out/a/b.txt").read_text() == "content of a/b.txt"
    assert os.access(tmp_path / "out/run.sh", os.X_OK) and (tmp_path / "out/empty").is_dir()


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize("name", ["../escaped", "a/../../escaped"])
def test_refuses_a_member_outside_the_folder(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(ValueError, match=r"OutsideDestinationError|leads out of the folder"):
        archive.unpack(tmp_path / "evil.tar.gz", tmp_path / "out")
    assert not (tmp_path / "escaped").exists()


@pytest.mark.usefixtures("python")
def test_refuses_a_link_out_of_the_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = tarfile.SYMTYPE, "../../etc/passwd"
        tar.addfile(member)
    with pytest.raises(ValueError, match=r"LinkOutsideDestinationError|links need Python"):
        archive.unpack(tmp_path / "evil.tar.gz", tmp_path / "out")


def test_refuses_a_damaged_archive(tmp_path: Path) -> None:
    archive.pack(folder(tmp_path / "in", ["a.txt"], 1), tmp_path / "it.tar.gz")
    whole = (tmp_path / "it.tar.gz").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no archive", b""):
        (tmp_path / "it.tar.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"cannot unpack it\.tar\.gz"):
            archive.unpack(tmp_path / "it.tar.gz", tmp_path / "out")


def test_returns_the_names_of_special_files(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", ["sub/a.txt"], 1)
    os.mkfifo(source / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(source / "socket"))
        (source / "dangling").symlink_to("nothing")
        (source / "circle").symlink_to("circle")
        (source / "out").symlink_to("/etc/passwd")
        (source / "up").symlink_to("..")
        skipped = archive.pack(source, tmp_path / "it.tar.gz")
    assert skipped == ["circle", "dangling", "fifo", "out", "socket", "up"]
    with tarfile.open(tmp_path / "it.tar.gz") as tar:
        assert tar.getnames() == ["sub", "sub/a.txt"]


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="Python before 3.11.4: links are refused")
def test_links_within_the_folder_are_kept(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", ["sub/a.txt", "deep/er/b.txt"], 1)
    (source / "latest.txt").symlink_to(source / "sub" / "a.txt")
    (source / "deep" / "folder").symlink_to("../sub")
    (source / "deep" / "self").symlink_to("..")
    os.link(source / "sub" / "a.txt", source / "twin.txt")
    assert archive.pack(source, tmp_path / "it.tar.gz") == []
    (tmp_path / "out").mkdir()
    archive.unpack(tmp_path / "it.tar.gz", tmp_path / "out")
    assert not (tmp_path / "out/latest.txt").is_symlink()
    for name in ("latest.txt", "twin.txt", "deep/folder/a.txt"):
        assert (tmp_path / "out" / name).read_text() == "content of sub/a.txt"
    (source / "twin.txt").unlink()
    (source / "twin.txt").write_text("content of sub/a.txt")
    archive.pack(source, tmp_path / "again.tar.gz")
    assert (tmp_path / "it.tar.gz").read_bytes() == (tmp_path / "again.tar.gz").read_bytes()


def test_a_full_disk_leaves_no_partial_archive(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "big").write_bytes(os.urandom(1_000_000))
    # For a writer, a limit on the size of files is the same as a full disk.
    code = (
        "import resource, signal, sys; from pathlib import Path; from drydock.transfer import archive\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: archive.pack(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "except OSError as error: print(type(error).__name__, error.errno)"
    )
    command = [sys.executable, "-c", code, str(source), str(tmp_path / "it.tar.gz")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert done.stdout == f"OSError {errno.EFBIG}\n"
    assert os.listdir(tmp_path) == ["in"]


def test_refuses_an_archive_that_is_too_large(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", ["a.txt", "b.txt", "c.txt"], 1)
    (source / "zeros").write_bytes(bytes(1_000_000))
    archive.pack(source, tmp_path / "it.tar.gz")
    archive.unpack(tmp_path / "it.tar.gz", tmp_path / "fits", max_bytes=1_000_100, max_members=4)
    with pytest.raises(ValueError, match="more than 999999 bytes"):
        archive.unpack(tmp_path / "it.tar.gz", tmp_path / "big", max_bytes=999_999)
    assert not (tmp_path / "big" / "zeros").exists()
    with pytest.raises(ValueError, match="3 members"):
        archive.unpack(tmp_path / "it.tar.gz", tmp_path / "many", max_members=3)


@pytest.mark.usefixtures("python")
def test_refuses_a_device(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("null")
        member.type, member.devmajor, member.devminor = tarfile.CHRTYPE, 1, 3
        tar.addfile(member)
    with pytest.raises(ValueError, match=r"SpecialFileError|neither a file nor a folder"):
        archive.unpack(tmp_path / "evil.tar.gz", tmp_path / "out")


def test_a_merge_prefers_the_first_hosts_file(tmp_path: Path) -> None:
    hosts = [tmp_path / f"algo-{number}" for number in (1, 2, 3)]
    for host in hosts:
        folder(host, ["same.txt", f"{host.name}/own.txt"], 1)
        (host / "same.txt").write_text(host.name)
    folder(hosts[0], ["file"], 1)
    folder(hosts[1], ["file/in/a/folder.txt"], 1)
    folder(hosts[2], ["folder"], 1)
    folder(hosts[0], ["folder/file.txt"], 1)
    (hosts[1] / "link.txt").symlink_to("same.txt")
    (hosts[1] / "sub").symlink_to("algo-2")
    (hosts[2] / "out").symlink_to("/etc/passwd")
    os.mkfifo(hosts[1] / "fifo")
    into = folder(tmp_path / "into" / "model", ["of-an-earlier-try.txt"], 1)
    assert archive.merge(hosts, into) == ["fifo", "out"]
    assert not (into / "of-an-earlier-try.txt").exists()
    assert (into / "same.txt").read_text() == "algo-1" and (into / "link.txt").read_text() == "algo-2"
    assert (into / "file").is_file() and (into / "folder/file.txt").is_file()
    assert all((into / host.name / "own.txt").is_file() for host in hosts)
    assert (into / "same.txt").samefile(hosts[0] / "same.txt") and (into / "sub" / "own.txt").is_file()
    assert (hosts[1] / "same.txt").read_text() == "algo-2"


def test_a_merge_works_without_hard_links(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or os.stat(memory).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("no second file system")
    with tempfile.TemporaryDirectory(dir=memory) as other:
        folder(Path(other), ["a.txt"], 1)
        assert archive.merge([Path(other)], tmp_path / "into") == []
        assert (tmp_path / "into/a.txt").read_text() == "content of a.txt"
        assert not (tmp_path / "into/a.txt").samefile(Path(other) / "a.txt")
