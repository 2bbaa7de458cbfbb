"""Test the digest of a downloaded package."""

import os
from pathlib import Path

import pytest

from pipelines.errors import DataError
from pipelines.registry.package.digest import DOWNLOAD_NOTE, compute_package_digest


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Write a package of two files."""
    folder = tmp_path / "package"
    (folder / "code").mkdir(parents=True)
    (folder / "MLmodel").write_text("flavors: {}\n")
    (folder / "code" / "scoring.py").write_text("pass\n")
    return folder


def test_the_note_of_the_download_is_not_part_of_the_package(package: Path) -> None:
    digest = compute_package_digest(package)
    (package / DOWNLOAD_NOTE).write_text("model_name: x\n")
    assert compute_package_digest(package) == digest
    assert not (package / DOWNLOAD_NOTE).exists(), "what is loaded is what was checked"
    (package / "code" / DOWNLOAD_NOTE).write_text("in a subfolder it is a file like others\n")
    assert compute_package_digest(package) != digest


@pytest.mark.parametrize("name", ["new.py", ".hidden", "code/__pycache__/scoring.cpython-311.pyc"])
def test_each_file_changes_the_digest(package: Path, name: str) -> None:
    digest = compute_package_digest(package)
    (package / name).parent.mkdir(exist_ok=True)
    (package / name).write_text("")
    assert compute_package_digest(package) != digest


def test_refuses_what_is_neither_file_nor_folder(package: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name, make in {
        "file": lambda path: path.symlink_to(package / "MLmodel"),
        "folder": lambda path: path.symlink_to(tmp_path / "elsewhere"),
        "dangling": lambda path: path.symlink_to("nowhere"),
        "pipe": os.mkfifo,
    }.items():
        path = package / "code" / name
        make(path)
        with pytest.raises(DataError, match=f"code/{name} .* is neither a file nor a folder"):
            compute_package_digest(package)
        path.unlink()
    compute_package_digest(package)
