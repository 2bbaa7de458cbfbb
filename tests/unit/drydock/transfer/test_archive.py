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


def write_files(root: Path, names: list[str], mtime: int) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"content of {name}")
        os.utime(root / name, (mtime, mtime))
    return root


@pytest.fixture(params=["as it is", "before 3.11.4"])
def tarfile_variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with tarfile as it is, and without its filters, as before Python 3.11.4. Debian 12 has 3.11.2."""
    if request.param == "before 3.11.4":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    return str(request.param)


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    names = ["b.txt", "a/c.txt", "a/b.txt"]
    for number, order in enumerate([names, names[::-1]]):
        archive.pack(write_files(tmp_path / str(number), order, 1000 * number), tmp_path / f"{number}.tar.gz")
    assert (tmp_path / "0.tar.gz").read_bytes() == (tmp_path / "1.tar.gz").read_bytes()
    (tmp_path / "1" / "b.txt").write_text("other")
    archive.pack(tmp_path / "1", tmp_path / "1.tar.gz")
    assert (tmp_path / "0.tar.gz").read_bytes() != (tmp_path / "1.tar.gz").read_bytes()


@pytest.mark.usefixtures("tarfile_variant")
def test_unpacks_what_was_packed(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", ["a/b.txt", "run.sh"], 1)
    (source / "run.sh").chmod(0o700)
    (source / "empty").mkdir()
    archive.pack(source, tmp_path / "it.tar.gz")
    (tmp_path / "out").mkdir()
    archive.unpack(tmp_path / "it.tar.gz", tmp_path / "out")
    assert (tmp_path / "out/a/b.txt").read_text() == "content of a/b.txt"
    assert os.access(tmp_path / "out/run.sh", os.X_OK) and (tmp_path / "out/empty").is_dir()


@pytest.mark.usefixtures("tarfile_variant")
@pytest.mark.parametrize("name", ["../escaped", "a/../../escaped"])
def test_refuses_a_member_outside_the_folder(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(ValueError, match=r"OutsideDestinationError|leads out of the folder"):
        archive.unpack(tmp_path / "evil.tar.gz", tmp_path / "out")
    assert not (tmp_path / "escaped").exists()


@pytest.mark.usefixtures("tarfile_variant")
def test_refuses_a_link_out_of_the_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = tarfile.SYMTYPE, "../../etc/passwd"
        tar.addfile(member)
    with pytest.raises(ValueError, match=r"LinkOutsideDestinationError|links need Python"):
        archive.unpack(tmp_path / "evil.tar.gz", tmp_path / "out")


def test_refuses_a_damaged_archive(tmp_path: Path) -> None:
    archive.pack(write_files(tmp_path / "in", ["a.txt"], 1), tmp_path / "it.tar.gz")
    whole = (tmp_path / "it.tar.gz").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no archive", b""):
        (tmp_path / "it.tar.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"cannot unpack it\.tar\.gz"):
            archive.unpack(tmp_path / "it.tar.gz", tmp_path / "out")


def test_returns_the_names_of_special_files_and_unusable_links(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", ["sub/a.txt"], 1)
    os.mkfifo(source / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(source / "socket"))
        (source / "dangling").symlink_to("nothing")
        (source / "circle").symlink_to("circle")
        (source / "out").symlink_to("/etc/passwd")
        (source / "up").symlink_to("..")
        skipped = archive.pack(source, tmp_path / "it.tar.gz")
    assert skipped == ["circle", "dangling", "fifo", "out", "socket", "up"]
    with tarfile.open(tmp_path / "it.tar.gz") as tar:
        assert tar.getnames() == ["sub", "sub/a.txt"]


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="Python before 3.11.4: links are refused")
def test_links_within_the_folder_become_copies_of_their_targets(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", ["sub/a.txt", "deep/er/b.txt"], 1)
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
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert result.stdout == f"OSError {errno.EFBIG}\n"
    assert os.listdir(tmp_path) == ["in"]


def test_refuses_an_archive_that_is_too_large(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", ["a.txt", "b.txt", "c.txt"], 1)
    (source / "zeros").write_bytes(bytes(1_000_000))
    archive.pack(source, tmp_path / "it.tar.gz")
    archive.unpack(tmp_path / "it.tar.gz", tmp_path / "fits", max_bytes=1_000_100, max_members=4)
    with pytest.raises(ValueError, match="more than 999999 bytes"):
        archive.unpack(tmp_path / "it.tar.gz", tmp_path / "big", max_bytes=999_999)
    assert not (tmp_path / "big" / "zeros").exists()
    with pytest.raises(ValueError, match="3 members"):
        archive.unpack(tmp_path / "it.tar.gz", tmp_path / "many", max_members=3)


@pytest.mark.usefixtures("tarfile_variant")
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
        write_files(host, ["same.txt", f"{host.name}/own.txt"], 1)
        (host / "same.txt").write_text(host.name)
    write_files(hosts[0], ["file"], 1)
    write_files(hosts[1], ["file/in/a/folder.txt"], 1)
    write_files(hosts[2], ["folder"], 1)
    write_files(hosts[0], ["folder/file.txt"], 1)
    (hosts[1] / "link.txt").symlink_to("same.txt")
    (hosts[1] / "sub").symlink_to("algo-2")
    (hosts[2] / "out").symlink_to("/etc/passwd")
    os.mkfifo(hosts[1] / "fifo")
    target = write_files(tmp_path / "into" / "model", ["of-an-earlier-try.txt"], 1)
    assert archive.merge(hosts, target) == ["fifo", "out"]
    assert not (target / "of-an-earlier-try.txt").exists()
    assert (target / "same.txt").read_text() == "algo-1" and (target / "link.txt").read_text() == "algo-2"
    assert (target / "file").is_file() and (target / "folder/file.txt").is_file()
    assert all((target / host.name / "own.txt").is_file() for host in hosts)
    assert (target / "same.txt").samefile(hosts[0] / "same.txt") and (target / "sub" / "own.txt").is_file()
    assert (hosts[1] / "same.txt").read_text() == "algo-2"


def test_a_merge_works_without_hard_links(tmp_path: Path) -> None:
    folders = [Path(folder) for folder in ("/dev/shm", tempfile.gettempdir()) if Path(folder).is_dir()]
    others = [folder for folder in folders if folder.stat().st_dev != tmp_path.stat().st_dev]
    if not others:
        pytest.skip("no second file system")
    with tempfile.TemporaryDirectory(dir=others[0]) as other:
        write_files(Path(other), ["a.txt"], 1)
        assert archive.merge([Path(other)], tmp_path / "into") == []
        assert (tmp_path / "into/a.txt").read_text() == "content of a.txt"
        assert not (tmp_path / "into/a.txt").samefile(Path(other) / "a.txt")
