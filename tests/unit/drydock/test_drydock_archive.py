"""Archives."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from drydock import archive


def folder(root: Path, names: list[str], moment: int) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"content of {name}")
        os.utime(root / name, (moment, moment))
    return root


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    names = ["b.txt", "a/c.txt", "a/b.txt"]
    for number, order in enumerate([names, names[::-1]]):
        archive.pack(folder(tmp_path / str(number), order, 1000 * number), tmp_path / f"{number}.tar.gz")
    assert (tmp_path / "0.tar.gz").read_bytes() == (tmp_path / "1.tar.gz").read_bytes()
    (tmp_path / "1" / "b.txt").write_text("other")
    archive.pack(tmp_path / "1", tmp_path / "1.tar.gz")
    assert (tmp_path / "0.tar.gz").read_bytes() != (tmp_path / "1.tar.gz").read_bytes()


def test_what_is_packed_can_be_unpacked(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", ["a/b.txt", "run.sh"], 1)
    (source / "run.sh").chmod(0o700)
    (source / "empty").mkdir()
    archive.pack(source, tmp_path / "it.tar.gz")
    (tmp_path / "out").mkdir()
    archive.unpack(tmp_path / "it.tar.gz", tmp_path / "out")
    assert (tmp_path / "out/a/b.txt").read_text() == "content of a/b.txt"
    assert os.access(tmp_path / "out/run.sh", os.X_OK) and (tmp_path / "out/empty").is_dir()


@pytest.mark.parametrize("name", ["../escaped", "a/../../escaped"])
def test_a_member_outside_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(ValueError, match="OutsideDestinationError"):
        archive.unpack(tmp_path / "evil.tar.gz", tmp_path / "out")
    assert not (tmp_path / "escaped").exists()


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = tarfile.SYMTYPE, "../../etc/passwd"
        tar.addfile(member)
    with pytest.raises(ValueError, match="LinkOutsideDestinationError"):
        archive.unpack(tmp_path / "evil.tar.gz", tmp_path / "out")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    archive.pack(folder(tmp_path / "in", ["a.txt"], 1), tmp_path / "it.tar.gz")
    whole = (tmp_path / "it.tar.gz").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no archive", b""):
        (tmp_path / "it.tar.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"cannot unpack it\.tar\.gz"):
            archive.unpack(tmp_path / "it.tar.gz", tmp_path / "out")
