"""Back up a home: write all its state to one archive, while the stack is stopped.

Airflow's database, MLflow's database, the lake's catalog and drydock's objects refer to one another. They are
consistent only while nothing writes to them, so the backup of a running stack is refused. A user may still run a single
step by hand. A step writes a file of the lake before it changes the catalog. The databases are therefore copied first,
with SQLite's own backup: every file that the copied catalog refers to exists by then, and is archived after it.
"""

from __future__ import annotations

import io
import os
import sqlite3
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO

from stack.backups.archive import MANIFEST, FileEntry, HashingReader, Manifest, list_state, require_stopped_stack
from stack.errors import RequestError, UnavailableError
from stack.layout import Layout

_SQLITE_HEADER = b"SQLite format 3\0"
_SQLITE_COMPANIONS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class BackupResult:
    """The archive that a backup wrote, and its size."""

    archive: Path
    files: int
    size_bytes: int


def back_up(layout: Layout, archive: Path) -> BackupResult:
    """Write all state of the home to the new file `archive`. The file appears only when it is complete.

    A kill can leave a temporary file in the folder of `archive`. The archive contains Airflow's keys and connections,
    so only its owner can read it (mode 0600).

    Raises:
        RequestError: there is no state, a top-level part of it is a symbolic link, or the archive would lie in the home
            or replace a file, or its folder does not exist. A retry cannot help.
        UnavailableError: the stack runs, another process keeps a database locked, a file cannot be read,
            or the disk cannot be written. A retry can help.
    """
    _check_request(layout, archive)
    with require_stopped_stack(layout, "stack backup"):
        try:
            return _write_archive(layout.home, archive)
        except (OSError, sqlite3.Error) as error:
            raise UnavailableError(
                f"Cannot back up to {archive}: {getattr(error, 'strerror', None) or error}."
            ) from None


def _check_request(layout: Layout, archive: Path) -> None:
    paths = list_state(layout.home)
    if not paths:
        raise RequestError(f"There is nothing to back up in {layout.home}.")
    if links := [path for path in paths if path.is_symlink()]:
        raise RequestError(
            f"{links[0]} is a link, and a backup does not follow links: replace it by the folder itself."
        )
    if archive.resolve().is_relative_to(layout.home):
        raise RequestError(f"{archive} is in the home that is backed up: name a file outside it.")
    if archive.exists():
        raise RequestError(f"{archive} exists already: name a new file.")
    if not archive.absolute().parent.is_dir():
        raise RequestError(f"There is no folder {archive.absolute().parent}: create it, or name another file.")


def _write_archive(home: Path, archive: Path) -> BackupResult:
    descriptor, temporary_path = tempfile.mkstemp(dir=archive.absolute().parent, prefix=f".{archive.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            manifest = _write_members(file, home)
            file.flush()
            os.fsync(file.fileno())
        size_bytes = Path(temporary_path).stat().st_size
        os.replace(temporary_path, archive)
    except BaseException:
        Path(temporary_path).unlink(missing_ok=True)
        raise
    return BackupResult(archive, len(manifest.files), size_bytes)


def _write_members(file: IO[bytes], home: Path) -> Manifest:
    manifest = Manifest(home=home, made_at=datetime.now(UTC))
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        # The databases come first.
        for path, is_database in sorted(_list_paths(home), key=lambda item: not item[1]):
            _add_path(tar, manifest, home, path, is_database)
        text = manifest.model_dump_json().encode()
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(text), 0o600
        tar.addfile(info, io.BytesIO(text))
    return manifest


def _list_paths(home: Path) -> Iterator[tuple[Path, bool]]:
    """Yield each folder and regular file of the state, and whether it is a SQLite database.

    Sockets and pipes are left out, and so are links below the top level: `_check_request` refuses the others.
    """
    for state_path in list_state(home):
        for path in [state_path, *(sorted(state_path.rglob("*")) if state_path.is_dir() else ())]:
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                yield path, False
            elif stat.S_ISREG(mode) and not _is_database_companion(path):
                yield path, _is_database(path)


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER


def _is_database_companion(path: Path) -> bool:
    """Return whether the file belongs to a SQLite database beside it (`-wal`, `-shm`, `-journal`).

    Such a file is not archived, because the copy of the database has its content.
    """
    databases = [
        path.with_name(path.name.removesuffix(suffix)) for suffix in _SQLITE_COMPANIONS if path.name.endswith(suffix)
    ]
    return any(database.is_file() and _is_database(database) for database in databases)


def _add_path(tar: tarfile.TarFile, manifest: Manifest, home: Path, path: Path, is_database: bool) -> None:
    name = str(path.relative_to(home))
    if path.is_dir():
        tar.add(path, name, recursive=False)
        manifest.folders.append(name)
        return
    with _copy_database(path) if is_database else path.open("rb") as content:
        info = tar.gettarinfo(path, name)
        # A hard link becomes a file of its own, because a restore follows no links.
        info.type, info.linkname = tarfile.REGTYPE, ""
        info.size = os.fstat(content.fileno()).st_size
        reader = HashingReader(content)
        tar.addfile(info, reader)
    manifest.files[name] = FileEntry(size_bytes=info.size, sha256=reader.sha256.hexdigest())


@contextmanager
def _copy_database(database: Path) -> Iterator[IO[bytes]]:
    """Open a consistent copy of a database, which other processes may be writing to."""
    with tempfile.NamedTemporaryFile(prefix="leeway-backup-") as copy:
        with (
            closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy.name)) as target,
        ):
            source.backup(target, progress=partial(_raise_if_locked, database.name))
        with Path(copy.name).open("rb") as content:
            yield content


def _raise_if_locked(database: str, status: int, remaining: int, total: int) -> None:
    """Raise an error if SQLite has waited five seconds for a lock. Without the error, SQLite would retry for ever."""
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise sqlite3.OperationalError(f"{database}: database is locked")
