"""Put new files into a project: all of them or none."""

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
"""Folder of a project for temporary files of `new`. Each process has a folder there, named by its process id."""
PLACED_FILE = "placed.json"
"""File with the paths that are being moved into the project, so that the next run can remove them after a kill."""


@contextmanager
def open_folder(project: Path) -> Iterator[Path]:
    """Yield an empty folder in the project; remove it when the block ends, even after SIGTERM or an error."""
    folder = project / FOLDER / str(os.getpid())
    folder.mkdir(parents=True)
    previous = signal.signal(signal.SIGTERM, _raise_exit)
    try:
        yield folder
    finally:
        signal.signal(signal.SIGTERM, previous)
        _remove(project, folder)


def place(project: Path, folder: Path, files: Mapping[str, str], replaced: Mapping[str, str]) -> None:
    """Write the files in `folder`, and move them into the project; after an error or a kill, none of them is there.

    Args:
        project: folder of the project.
        folder: folder that `open_folder` returned.
        files: path in the project to the text of a new file.
        replaced: path to the new text of an existing file; written last.

    Raises:
        SpecError: a file exists already. Nothing is written. A retry cannot help.
    """
    existing = [name for name in files if (project / name).exists()]
    if existing:
        message = f"{project / existing[0]} exists already."
        raise SpecError(message, "Choose another name, or remove the file. Nothing was written.")
    for name, text in {**files, **replaced}.items():
        path = folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    placed = folder / PLACED_FILE
    placed.write_text(json.dumps([*files]), encoding="utf-8")
    for name in (*files, *replaced):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / "files" / name, project / name)
    placed.unlink()  # from here on, the files stay


def remove_leftovers(project: Path) -> None:
    """Remove the files of earlier runs of `new` that were killed."""
    for folder in (project / FOLDER).glob("*"):
        if folder.name.isdigit() and not _is_alive(int(folder.name)):
            _remove(project, folder)


def _is_alive(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _remove(project: Path, folder: Path) -> None:
    placed = folder / PLACED_FILE
    names = json.loads(placed.read_text(encoding="utf-8")) if placed.is_file() else []
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
