"""List the entries of a folder to which a job writes: files, folders, and entries that must not be followed or read."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath


class EntryKind(StrEnum):
    """The kind of an entry of a folder."""

    FILE = "file"
    """A regular file, or a link to one inside the folder."""
    FOLDER = "folder"
    """A folder."""
    LINK = "link"
    """A link to a folder that is inside the walked folder, too."""
    OTHER = "other"
    """A link that leads out of the folder or nowhere, a socket, a fifo, a device."""


@dataclass(frozen=True)
class Entry:
    """One entry below a folder.

    Attributes:
        name: Path relative to the folder, with slashes.
        kind: The entry's kind.
        path: Path of the entry; for a link to a file or folder inside the folder, the path that the link leads to.
    """

    name: str
    kind: EntryKind
    path: Path


def walk_folder(folder: Path, on_error: Callable[[OSError], None] | None = None) -> Iterator[Entry]:
    """Yield the entries below a folder. Links to folders are not followed. Entries deleted meanwhile are omitted.

    Args:
        folder: An existing folder.
        on_error: Called with the error if a folder cannot be read. The folder is then skipped. None: raise the error.
    """
    root = folder.resolve()
    for parent, folders, files in os.walk(root, onerror=on_error or _raise_error):
        for name in sorted([*folders, *files]):
            path = Path(parent, name)
            try:
                kind, real_path = _classify(path, root)
            except FileNotFoundError:
                continue
            yield Entry(path.relative_to(root).as_posix(), kind, real_path)


def list_entries(folder: Path) -> list[Entry]:
    """Return the entries below a folder, parents first, in the same order on every file system."""
    return sorted(walk_folder(folder), key=lambda entry: PurePosixPath(entry.name).parts)


def _raise_error(error: OSError) -> None:
    raise error


def _classify(path: Path, root: Path) -> tuple[EntryKind, Path]:
    mode = path.lstat().st_mode
    if not stat.S_ISLNK(mode):
        return _classify_mode(mode), path
    # Not strict: a link to nothing, or a cycle of links, becomes OTHER and raises nothing.
    real_path = Path(os.path.realpath(path))
    if not real_path.is_relative_to(root) or not real_path.exists():
        return EntryKind.OTHER, path
    kind = _classify_mode(real_path.lstat().st_mode)
    return (EntryKind.LINK if kind is EntryKind.FOLDER else kind), real_path


def _classify_mode(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    return EntryKind.FOLDER if stat.S_ISDIR(mode) else EntryKind.OTHER
