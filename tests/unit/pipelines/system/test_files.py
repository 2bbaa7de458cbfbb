"""Test that files and folders are replaced as a whole, and how JSON is written and read."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DataError
from pipelines.system.files import read_json, replace_file, replace_folder, sha256, write_json


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with replace_file(path) as new_file:
        new_file.write_text("one")
        assert not path.exists()
    assert path.read_text() == "one"
    with pytest.raises(ZeroDivisionError), replace_file(path) as new_file:
        new_file.write_text(str(new_file.write_text("half of the text") // 0))
    assert path.read_text() == "one"
    assert [item.name for item in path.parent.iterdir()] == ["file"]


def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(FileExistsError, match="not a regular file"), replace_file(tmp_path / name):
            pytest.fail("the file is opened")
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["link", "pipe"]


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with replace_folder(path) as new_folder:
        (new_folder / "a").write_text("1")
    with replace_folder(path) as new_folder:
        (new_folder / "b").write_text("2")
        assert [item.name for item in path.iterdir()] == ["a"]
    assert [item.name for item in path.iterdir()] == ["b"]
    with pytest.raises(ZeroDivisionError), replace_folder(path) as new_folder:
        (new_folder / "d").write_text(str((new_folder / "c").write_text("3") // 0))
    assert [item.name for item in path.iterdir()] == ["b"]
    assert [item.name for item in tmp_path.iterdir()] == ["folder"]


def test_a_folder_can_replace_a_file(tmp_path: Path) -> None:
    (tmp_path / "thing").write_text("a file")
    with replace_folder(tmp_path / "thing") as new_folder:
        (new_folder / "a").write_text("1")
    assert (tmp_path / "thing" / "a").read_text() == "1"
    assert [item.name for item in tmp_path.iterdir()] == ["thing"]


WRITER = """
import sys, itertools
from pathlib import Path
from pipelines.system.files import replace_file, replace_folder
kind, path = sys.argv[1], Path(sys.argv[2])
for n in itertools.count():
    if kind == "file":
        with replace_file(path) as new_file:
            with new_file.open("w") as file:
                for _ in range(400): file.write(f"{n}\\n")
    else:
        with replace_folder(path) as new_folder:
            for part in range(40): (new_folder / str(part)).write_text(f"{n}\\n")
    if n == 0: print("ready", flush=True)
"""


def read_contents(kind: str, path: Path) -> list[str]:
    if kind == "file":
        return path.read_text().split()
    return [item.read_text().strip() for item in path.iterdir()]


@pytest.mark.parametrize(("kind", "parts"), [("file", 400), ("folder", 40)])
def test_a_kill_at_any_moment_leaves_a_complete_file_or_folder(tmp_path: Path, kind: str, parts: int) -> None:
    path = tmp_path / "it"
    for attempt in range(12):
        process = subprocess.Popen([sys.executable, "-c", WRITER, kind, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        polls = 0
        while polls < 40 + 7 * attempt:  # The moment of the kill differs between attempts.
            if path.exists():
                polls += 1
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if kind == "folder" and not path.exists():
            continue  # The kill came between the two renames: the folder is absent.
        contents = read_contents(kind, path)
        assert len(contents) == parts
        assert len(set(contents)) == 1
    with replace_folder(path) if kind == "folder" else replace_file(path) as new_path:
        (new_path / "new" if kind == "folder" else new_path).write_text("new")
    assert read_contents(kind, path) == ["new"]


def test_a_folder_is_not_at_its_path_while_it_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    path, removed, remove_tree = tmp_path / "folder", [], shutil.rmtree

    def rmtree(folder: Any, *args: Any, **kwargs: Any) -> None:
        removed.append(Path(folder))
        remove_tree(folder, *args, **kwargs)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    for n in range(2):
        with replace_folder(path) as new_folder:
            (new_folder / str(n)).write_text("x")
    assert path not in removed
    assert [item.name for item in path.iterdir()] == ["1"]


def test_equal_values_give_equal_bytes(tmp_path: Path) -> None:
    write_json(tmp_path / "a", {"b": 1, "a": [2, 3]})
    write_json(tmp_path / "b", {"a": [2, 3], "b": 1})
    write_json(tmp_path / "c", {"a": [3, 2], "b": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()
    assert read_json(tmp_path / "a", "") == {"a": [2, 3], "b": 1}


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\xfe{}", "folder"])
def test_an_error_for_invalid_json_says_what_writes_the_file(tmp_path: Path, content: bytes | str | None) -> None:
    path = tmp_path / "x.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    with pytest.raises(DataError, match="ingest writes it"):
        read_json(path, "ingest writes it")


def test_the_digest_of_a_folder_depends_on_names_and_contents(tmp_path: Path) -> None:
    def compute_digest(**files: str) -> str:
        folder = tmp_path / json.dumps(files).replace("/", "_")
        for name, text in files.items():
            (folder / name.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
            (folder / name.replace("__", "/")).write_text(text)
        return sha256(folder)

    assert compute_digest(a="1", sub__b="2") == compute_digest(sub__b="2", a="1")
    digests = {
        compute_digest(a="1", b="2"),
        compute_digest(a="2", b="1"),
        compute_digest(a="1"),
        compute_digest(a="1", sub__b="2"),
        compute_digest(a="12"),
    }
    assert len(digests) == 5
    (tmp_path / "file").write_text("x")
    assert sha256(tmp_path / "file") == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


def test_waiting_for_a_condition_ends_with_an_error(until: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError):
        until(lambda: False, 0.05)
