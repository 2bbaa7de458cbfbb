"""What is below a folder that somebody else fills: files, folders, and what must not be followed or read."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath


class Kind(StrEnum):
    """What an entry counts as."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True)
class Entry:
    """One thing below a folder.

    Attributes:
        name: Its path below the folder, with slashes.
        kind: FILE: a regular file, or a link to one in the folder. LINK: to a folder in the folder. OTHER: a link
            that leads out or nowhere, a socket, a fifo, a device.
        path: Where its bytes are: what a link leads to, for a FILE.
    """

    name: str
    kind: Kind
    path: Path


def walk(folder: Path, on_error: Callable[[OSError], None] | None = None) -> Iterator[Entry]:
    """Yield what is below the folder, links to folders not followed; what vanishes meanwhile is left out.

    Args:
        folder: Where to look.
        on_error: Given the error of a folder that cannot be read, which is then passed over; without it, it is raised.
    """
    root = folder.resolve()
    for parent, folders, files in os.walk(root, onerror=on_error or _raise):
        for name in sorted([*folders, *files]):
            path = Path(parent, name)
            try:
                kind, real = _look(path, root)
            except FileNotFoundError:
                continue
            yield Entry(path.relative_to(root).as_posix(), kind, real)


def in_order(folder: Path) -> list[Entry]:
    """Return what is below the folder, parents first, in the same order on every file system."""
    return sorted(walk(folder), key=lambda entry: PurePosixPath(entry.name).parts)


def _raise(error: OSError) -> None:
    raise error


def _look(path: Path, root: Path) -> tuple[Kind, Path]:
    mode = path.lstat().st_mode
    if not stat.S_ISLNK(mode):
        return _kind(mode), path
    # Not strict: a link to nothing, or one that turns in a circle, is OTHER and no error.
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root) or not real.exists():
        return Kind.OTHER, path
    kind = _kind(real.lstat().st_mode)
    return (Kind.LINK if kind is Kind.FOLDER else kind), real


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    return Kind.FOLDER if stat.S_ISDIR(mode) else Kind.OTHER
