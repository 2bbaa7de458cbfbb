"""Write new and changed files into a project: all new ones or none."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from pipelines.errors import SpecError

FOLDER = Path(".leeway") / "new"
"""Folder of a project for temporary files of `new` and of its updates. Each process has a folder there, named by its
process id."""
NEW_FILES_LIST = "new_files.json"
"""File with the paths that are being moved into the project. If the process is killed, the next run removes these
files."""


@contextmanager
def open_temporary_folder(project: Path) -> Iterator[Path]:
    """Yield an empty folder in the project; remove it when the block ends, even after SIGTERM or an error."""
    folder = project / FOLDER / str(os.getpid())
    folder.mkdir(parents=True)
    earlier_handler = signal.signal(signal.SIGTERM, _raise_exit)
    try:
        yield folder
    finally:
        signal.signal(signal.SIGTERM, earlier_handler)
        _remove_folder(project, folder)


def write_files(project: Path, folder: Path, new_files: Mapping[str, str], changed_files: Mapping[str, str]) -> None:
    """Write the files to `folder`, then move them into the project.

    After an error, `open_temporary_folder` removes the new files; after a kill, `remove_leftovers` does it later.

    Args:
        project: folder of the project.
        folder: folder that `open_temporary_folder` yielded.
        new_files: path in the project to the text of a new file.
        changed_files: path to the new text of an existing file; these are moved last.

    Raises:
        SpecError: a new file exists already. Nothing is written. A retry cannot help.
    """
    existing_files = [name for name in new_files if (project / name).exists()]
    if existing_files:
        message = f"{project / existing_files[0]} exists already."
        raise SpecError(message, "Choose another name, or remove the file. Nothing was written.")
    for name, text in {**new_files, **changed_files}.items():
        path = folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    list_file = folder / NEW_FILES_LIST
    list_file.write_text(json.dumps([*new_files]), encoding="utf-8")
    for name in (*new_files, *changed_files):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / "files" / name, project / name)
    list_file.unlink()  # without the list, `_remove_folder` does not remove the files


def remove_leftovers(project: Path) -> None:
    """Remove the files that killed processes left: temporary files, and new files of a model that is not complete."""
    for folder in (project / FOLDER).glob("*"):
        if folder.name.isdigit() and not _is_alive(int(folder.name)):
            _remove_folder(project, folder)


def _is_alive(process_id: int) -> bool:
    try:
        return bool(psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _remove_folder(project: Path, folder: Path) -> None:
    """Remove a temporary folder, and the new files that its process moved into the project before it was killed."""
    list_file = folder / NEW_FILES_LIST
    names = json.loads(list_file.read_text(encoding="utf-8")) if list_file.is_file() else []
    for name in names:
        (project / name).unlink(missing_ok=True)
    for name in names:
        _remove_empty_folders(project, (project / name).parent)
    shutil.rmtree(folder, ignore_errors=True)
    _remove_empty_folders(project, folder.parent)


def _remove_empty_folders(project: Path, folder: Path) -> None:
    while folder != project and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _raise_exit(signum: int, _: Any) -> None:
    raise SystemExit(128 + signum)
