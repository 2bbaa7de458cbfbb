"""Test reading a file that a job writes at the same time."""

import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from drydock.transfer.stable_read import copy_stable, has_writer, open_regular_file

# Rewrites a file in place for ever; each state is a megabyte of one byte. Prints a line at its start.
WRITER = """
import sys
with open(sys.argv[1], "r+b", buffering=0) as it:
    for count in range(10**9):
        it.seek(0)
        for _ in range(64):
            it.write(bytes([count % 256]) * 16384)
        if count == 0:
            print(flush=True)
"""


def test_copies_a_file_that_does_not_change(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "it").write_bytes(content)
    copied = copy_stable(tmp_path / "it", tmp_path)
    assert copied is not None
    with copied:
        (tmp_path / "it").write_bytes(b"other")
        assert os.listdir(tmp_path) == ["it"]
        copied.seek(0)
        assert copied.read() == content


@pytest.mark.parametrize(("changes", "content"), [(0, b"0"), (1, b"1"), (4, b"4"), (5, None)])
def test_reads_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int, content: bytes | None
) -> None:
    path, copy = tmp_path / "it", shutil.copyfileobj
    done: list[Path] = []
    path.write_bytes(b"0")

    def copy_and_change(*args: Any) -> None:
        copy(*args)
        if len(done) < changes:
            done.append(path)
            path.write_bytes(str(len(done)).encode())

    monkeypatch.setattr("drydock.transfer.stable_read.shutil.copyfileobj", copy_and_change)
    copied = copy_stable(path, tmp_path)
    if content is None:
        assert copied is None
    else:
        assert copied is not None
        with copied:
            copied.seek(0)
            assert copied.read() == content
    assert os.listdir(tmp_path) == ["it"]


def test_reads_again_after_a_write_of_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that truncates and fills a file between the two reads leaves only its time as a trace."""
    path, copy, calls = tmp_path / "it", shutil.copyfileobj, []
    path.write_bytes(b"0")

    def copy_and_write(*args: Any) -> None:
        copy(*args)
        calls.append(path.stat().st_mtime_ns)
        os.utime(path, ns=(calls[0], calls[0] + min(len(calls), 2)))

    monkeypatch.setattr("drydock.transfer.stable_read.shutil.copyfileobj", copy_and_write)
    copied = copy_stable(path, tmp_path)
    assert copied is not None
    copied.close()
    assert len(calls) == 3


@pytest.mark.parametrize("mode", ["wb", "ab", "r+b"])
def test_finds_a_file_that_is_open_for_writing(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"0")
    with path.open("rb") as reader:
        with path.open(mode):
            assert has_writer(reader)
            assert copy_stable(path, tmp_path) is None
            copied = copy_stable(path, tmp_path, ignore_writers=True)
            assert copied is not None
            copied.close()
        with path.open("rb"):
            assert not has_writer(reader)


def test_never_copies_an_inconsistent_file(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(bytes(1 << 20))
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline()
        for _ in range(100):
            if (copied := copy_stable(path, tmp_path, ignore_writers=True)) is not None:
                with copied:
                    copied.seek(0)
                    # The writer goes from start to end: at any moment the bytes change at most once in the file.
                    assert _count_changed_pages(copied.read()) <= 1
        writer.kill()


def _count_changed_pages(content: bytes) -> int:
    pages = [content[start] for start in range(0, len(content), 4096)]
    return sum(page != next_page for page, next_page in pairwise(pages))


def test_opens_only_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        open_regular_file(tmp_path / "link")
    for name in ("fifo", "", "none"):
        with pytest.raises(FileNotFoundError):
            open_regular_file(tmp_path / name)
