"""Backup of a home: one archive of all state, taken while nothing of the stack runs.

Airflow's database, MLflow's, the lake's catalog and drydock's objects refer to one another. Only while nobody writes
are they of one moment, so a running stack is refused. SQLite's own backup takes the databases before all other files:
a step that somebody runs by hand meanwhile only adds files that no catalog names yet.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict

from stack.errors import RequestError, UnavailableError
from stack.layout import Layout
from stack.services import locks, processes, start_stop

MANIFEST = "MANIFEST.json"
"""Last member of an archive: what has to be in it. An archive without it was not finished."""
FORMAT = 1
LEFT_OUT = frozenset({"uv", "tmp", "logs", "matplotlib", "workspaces", "training", "stack.json", "stack.keep"})
"""At the top of a home: what is no state, or is made again from what is."""
_SQLITE = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal")


class Entry(BaseModel):
    """A file of an archive."""

    size_bytes: int
    sha256: str


class Manifest(BaseModel):
    """What is in an archive, and where it comes from."""

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    home: Path
    """Tables of the lake name their files by their whole path: an archive can only go back to where it was."""
    made_at: datetime
    folders: list[str] = field(default_factory=list)
    files: dict[str, Entry] = field(default_factory=dict)


@dataclass(frozen=True)
class Kept:
    """What a backup came to."""

    archive: Path
    files: int
    size_bytes: int


def backup(layout: Layout, archive: Path) -> Kept:
    """`archive` has all state of the home; or nothing is there, where this fails or is killed.

    The archive holds Airflow's keys and connections: it is for its owner only (mode 0600).

    Raises:
        RequestError: there is no state, a part of it is a link, or the archive would be in the home or replace a file.
        UnavailableError: the stack runs, somebody keeps a database locked, or the disk refuses.
    """
    _demand_sane(layout, archive)
    with quiet(layout, "stack backup"):
        try:
            return _written(layout.home, archive)
        except (OSError, sqlite3.Error) as error:
            raise UnavailableError(f"Cannot write {archive}: {getattr(error, 'strerror', None) or error}.") from None


@contextmanager
def quiet(layout: Layout, command: str) -> Iterator[None]:
    """Nothing of the home's stack runs, and none is started, while the block runs.

    Raises:
        UnavailableError: something runs.
    """
    with locks.exclusive(layout.lock(start_stop.LOCK), command):
        if start_stop.running(layout) is not None or processes.find(layout.home):
            raise UnavailableError("The stack is running: stop it first, with `make down`.")
        yield


def state(home: Path) -> list[Path]:
    """The entries at the top of a home that are state; none where there is no home."""
    if not home.is_dir():
        return []
    found = (one for one in home.iterdir() if one.name not in LEFT_OUT and one.suffix != ".lock")
    return sorted(found)


def _demand_sane(layout: Layout, archive: Path) -> None:
    found = state(layout.home)
    if not found:
        raise RequestError(f"There is nothing to back up in {layout.home}.")
    if linked := [one for one in found if one.is_symlink()]:
        raise RequestError(f"{linked[0]} is a link, and a backup follows none: put what it leads to in its place.")
    if archive.resolve().is_relative_to(layout.home):
        raise RequestError(f"{archive} is in the home that is backed up: name a file elsewhere.")
    if archive.exists():
        raise RequestError(f"{archive} is there already: name a file that is not.")
    if not archive.absolute().parent.is_dir():
        raise RequestError(f"There is no folder {archive.absolute().parent}.")


def _written(home: Path, archive: Path) -> Kept:
    descriptor, making = tempfile.mkstemp(dir=archive.absolute().parent, prefix=f".{archive.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            manifest = _fill(file, home)
            file.flush()
            os.fsync(file.fileno())
        size_bytes = Path(making).stat().st_size
        os.replace(making, archive)
    except BaseException:
        Path(making).unlink(missing_ok=True)
        raise
    return Kept(archive, len(manifest.files), size_bytes)


def _fill(file: IO[bytes], home: Path) -> Manifest:
    manifest = Manifest(home=home, made_at=datetime.now(UTC))
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        found = sorted(_found(home), key=lambda one: not one[1])
        for path, database in found:
            _add(tar, manifest, home, path, database)
        text = manifest.model_dump_json().encode()
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(text), 0o600
        tar.addfile(info, io.BytesIO(text))
    return manifest


def _found(home: Path) -> Iterator[tuple[Path, bool]]:
    """Every folder and plain file of the state, and whether it is a SQLite database. No links, sockets, pipes."""
    for top in state(home):
        for path in [top, *(sorted(top.rglob("*")) if top.is_dir() else ())]:
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                yield path, False
            elif stat.S_ISREG(mode) and not _beside_a_database(path):
                yield path, _is_database(path)


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _beside_a_database(path: Path) -> bool:
    """What SQLite keeps beside a database is in the copy that SQLite makes of it."""
    return any(
        path.name.endswith(end) and _is_database_at(path.with_name(path.name.removesuffix(end))) for end in _BESIDE
    )


def _is_database_at(path: Path) -> bool:
    return path.is_file() and _is_database(path)


def _add(tar: tarfile.TarFile, manifest: Manifest, home: Path, path: Path, database: bool) -> None:
    name = str(path.relative_to(home))
    if path.is_dir():
        tar.add(path, name, recursive=False)
        manifest.folders.append(name)
        return
    with _copied(path) if database else path.open("rb") as content:
        info = tar.gettarinfo(path, name)
        # A second name of one file is a file of its own here: whoever restores follows no link.
        info.type, info.linkname = tarfile.REGTYPE, ""
        info.size = os.fstat(content.fileno()).st_size
        told = Counted(content)
        tar.addfile(info, told)
    manifest.files[name] = Entry(size_bytes=info.size, sha256=told.sha256.hexdigest())


@contextmanager
def _copied(database: Path) -> Iterator[IO[bytes]]:
    """A copy of the database as of one moment, whoever writes to it."""
    with tempfile.NamedTemporaryFile(prefix="leeway-backup-") as copy:
        with (
            closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy.name)) as target,
        ):
            source.backup(target, progress=partial(_demand_unlocked, database.name))
        with Path(copy.name).open("rb") as content:
            yield content


def _demand_unlocked(database: str, status: int, remaining: int, total: int) -> None:
    """SQLite has waited for five seconds when it says so, and would begin again for ever."""
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise sqlite3.OperationalError(f"{database}: database is locked")


class Counted(io.RawIOBase):
    """A file that hashes what is read of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.sha256 = file, hashlib.sha256()

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self._file.read(size)
        self.sha256.update(data)
        return data


def read_manifest(text: bytes) -> Manifest:
    """The manifest.

    Raises:
        ValueError: it is none of this format.
    """
    told = json.loads(text)
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise ValueError("of another format")
    return Manifest.model_validate(told)
