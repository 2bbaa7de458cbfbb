"""Test the listing of a folder while another process changes it."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from pipelines.lake import storage


class ChangingSystem:
    """A file system in which folders disappear during the first listings."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def get_file_info(self, selector: Any) -> Any:
        """List what the local file system has, unless this listing fails."""
        self.failures -= 1
        if self.failures >= 0:
            raise FileNotFoundError("Cannot list directory")
        return LocalFileSystem().get_file_info(selector)


def list_names(folder: Path, failures: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    io, system = PyArrowFileIO(), ChangingSystem(failures)
    monkeypatch.setattr(io, "fs_by_scheme", lambda *_: system)
    return [name.rpartition("/")[2] for name in storage.list_files(io, f"file://{folder}")]


def test_folder_that_changes_during_its_listing_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").touch()
    assert list_names(tmp_path, 0, monkeypatch) == list_names(tmp_path, 1, monkeypatch) == ["a.json"]
    assert list_names(tmp_path / "missing", 0, monkeypatch) == []
    with pytest.raises(FileNotFoundError):
        list_names(tmp_path, 2, monkeypatch)
