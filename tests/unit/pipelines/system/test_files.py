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


def test_a_whole_file_takes_its_place_or_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with replace_file(path) as making:
        making.write_text("one")
        assert not path.exists()
    assert path.read_text() == "one"
    with pytest.raises(ZeroDivisionError), replace_file(path) as making:
        making.write_text(str(making.write_text("half of tw") // 0))
    assert path.read_text() == "one"
    assert [one.name for one in path.parent.iterdir()] == ["file"]


def test_a_whole_folder_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with replace_folder(path) as making:
        (making / "a").write_text("1")
    with replace_folder(path) as making:
        (making / "b").write_text("2")
        assert [one.name for one in path.iterdir()] == ["a"]
    assert [one.name for one in path.iterdir()] == ["b"]
    with pytest.raises(ZeroDivisionError), replace_folder(path) as making:
        (making / "d").write_text(str((making / "c").write_text("3") // 0))
    assert [one.name for one in path.iterdir()] == ["b"]
    assert [one.name for one in tmp_path.iterdir()] == ["folder"]


def test_a_whole_folder_takes_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "thing").write_text("a file")
    with replace_folder(tmp_path / "thing") as making:
        (making / "a").write_text("1")
    assert (tmp_path / "thing" / "a").read_text() == "1"
    assert [one.name for one in tmp_path.iterdir()] == ["thing"]


WRITER = """
import sys, itertools
from pathlib import Path
from pipelines.system.files import replace_file, replace_folder
kind, path = sys.argv[1], Path(sys.argv[2])
for n in itertools.count():
    if kind == "file":
        with replace_file(path) as making:
            with making.open("w") as file:
                for _ in range(400): file.write(f"{n}\\n")
    else:
        with replace_folder(path) as making:
            for part in range(40): (making / str(part)).write_text(f"{n}\\n")
    if n == 0: print("ready", flush=True)
"""


def contents(kind: str, path: Path) -> list[str]:
    if kind == "file":
        return path.read_text().split()
    return [one.read_text().strip() for one in path.iterdir()]


@pytest.mark.parametrize(("kind", "parts"), [("file", 400), ("folder", 40)])
def test_kill_9_at_any_moment_leaves_a_whole_one(tmp_path: Path, kind: str, parts: int) -> None:
    path = tmp_path / "it"
    for attempt in range(12):
        child = subprocess.Popen([sys.executable, "-c", WRITER, kind, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        seen = 0
        while seen < 40 + 7 * attempt:  # a moment that differs from attempt to attempt
            if path.exists():
                seen += 1
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        if kind == "folder" and not path.exists():
            continue  # between the two renames: whole, or not there
        found = contents(kind, path)
        assert len(found) == parts
        assert len(set(found)) == 1
    with replace_folder(path) if kind == "folder" else replace_file(path) as making:
        (making / "new" if kind == "folder" else making).write_text("new")
    assert contents(kind, path) == ["new"]


def test_a_folder_is_never_seen_half_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `shutil.rmtree` is given must no longer be at the path."""
    import shutil

    path, seen, real = tmp_path / "folder", [], shutil.rmtree

    def rmtree(victim: Any, *args: Any, **kwargs: Any) -> None:
        seen.append(Path(victim))
        real(victim, *args, **kwargs)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    for n in range(2):
        with replace_folder(path) as making:
            (making / str(n)).write_text("x")
    assert path not in seen
    assert [one.name for one in path.iterdir()] == ["1"]


def test_equal_values_are_equal_bytes(tmp_path: Path) -> None:
    write_json(tmp_path / "a", {"b": 1, "a": [2, 3]})
    write_json(tmp_path / "b", {"a": [2, 3], "b": 1})
    write_json(tmp_path / "c", {"a": [3, 2], "b": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()
    assert read_json(tmp_path / "a", "") == {"a": [2, 3], "b": 1}


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\xfe{}", "folder"])
def test_reading_what_is_not_json_says_what_was_wanted(tmp_path: Path, content: bytes | str | None) -> None:
    path = tmp_path / "x.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    with pytest.raises(DataError, match="the cook writes it"):
        read_json(path, "the cook writes it")


def test_digest_of_a_folder_knows_names_and_contents(tmp_path: Path) -> None:
    def made(**files: str) -> str:
        folder = tmp_path / json.dumps(files).replace("/", "_")
        for name, text in files.items():
            (folder / name.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
            (folder / name.replace("__", "/")).write_text(text)
        return sha256(folder)

    assert made(a="1", sub__b="2") == made(sub__b="2", a="1")
    assert len({made(a="1", b="2"), made(a="2", b="1"), made(a="1"), made(a="1", sub__b="2"), made(a="12")}) == 5
    (tmp_path / "file").write_text("x")
    assert sha256(tmp_path / "file") == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


def test_poll_helper_gives_up(until: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError):
        until(lambda: False, 0.05)
