"""Define the format of a backup: a tar file whose last member is a manifest of all files."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict

from stack.errors import UnavailableError
from stack.layout import PROGRAM, Layout
from stack.services.locks import hold_lock
from stack.services.processes import find_processes
from stack.services.start_stop import LOCK, find_running_stack

MANIFEST = "MANIFEST.json"
"""The last member of an archive: the list of all other members. An archive without it is incomplete."""
FORMAT = 1
"""Version of the format of archives. An archive of another version is refused."""
EXCLUDED_NAMES = frozenset({"uv", "tmp", "logs", "matplotlib", "workspaces", "training", "stack.json", "stack.keep"})
"""Names of the files and folders directly in a home that are not state, or that can be created again from the state."""


class FileEntry(BaseModel):
    """The size and digest of one file of an archive."""

    size_bytes: int
    sha256: str


class Manifest(BaseModel):
    """The list of an archive's members, and the home that they come from."""

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    home: Path
    """An archive can only be restored to this path, because tables of the lake name their files by absolute paths."""
    made_at: datetime
    folders: list[str] = field(default_factory=list)
    files: dict[str, FileEntry] = field(default_factory=dict)


class HashingReader(io.RawIOBase):
    """A readable file that computes the SHA-256 digest of what is read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.sha256 = file, hashlib.sha256()

    def readable(self) -> bool:
        """Return True, as `io.RawIOBase` requires of a readable file."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes, and add them to the digest."""
        data = self._file.read(size)
        self.sha256.update(data)
        return data


def parse_manifest(text: bytes) -> Manifest:
    """Return the manifest in `text`.

    Raises:
        ValueError: the text is not a manifest of this format. A retry cannot help.
    """
    content = json.loads(text)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("its manifest has another format")
    return Manifest.model_validate(content)


def list_state(home: Path) -> list[Path]:
    """Return the top-level files and folders of a home that are state, sorted; empty if there is no home."""
    if not home.is_dir():
        return []
    return sorted(path for path in home.iterdir() if path.name not in EXCLUDED_NAMES and path.suffix != ".lock")


@contextmanager
def require_stopped_stack(layout: Layout, command: str) -> Iterator[None]:
    """Check that the stack of the home does not run. Until the block ends, no other command can start it.

    Args:
        layout: the folders of the stack.
        command: the name of this command, which other commands show if they cannot get the lock.

    Raises:
        UnavailableError: a process of the stack runs, or another command is changing the stack. A retry can help.
    """
    with hold_lock(layout.lock_file(LOCK), command):
        if find_running_stack(layout) is not None or find_processes(layout.home):
            raise UnavailableError(f"The stack is running: stop it first, with `{PROGRAM} down`.")
        yield
