"""Verify a backup: read its archive to the end, and compare every member with the manifest."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from stack.backups.archive import MANIFEST, FileEntry, HashingReader, Manifest, parse_manifest
from stack.errors import RequestError

CHUNK_BYTES = 1 << 20


class _DamagedError(Exception):
    """The archive differs from what `back_up` wrote."""


def verify_archive(archive: Path) -> Manifest:
    """Read the whole archive, compare each member with the manifest, and return the manifest.

    Raises:
        RequestError: the file is not a complete archive of `back_up`, or was changed, or cannot be read. A retry cannot
            help.
    """
    try:
        return _verify_members(archive)
    except (tarfile.TarError, EOFError, ValueError, ValidationError, _DamagedError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise RequestError(f"{archive} is not a complete archive of `make backup`, or was changed: {reason}.") from None
    except OSError as error:
        raise RequestError(f"Cannot read {archive}: {error.strerror or error}.") from None


def read_members(archive: Path) -> Iterator[tuple[tarfile.TarInfo, HashingReader | None]]:
    """Yield each member: a file with its content, or a folder with None.

    Raises:
        tarfile.TarError: the file is not a tar file.
        _DamagedError: a member is neither a file nor a folder, or its path may lead out of the home.
    """
    with tarfile.open(archive, "r:") as tar:
        for info in tar:
            path = PurePosixPath(info.name)
            if path.is_absolute() or ".." in path.parts or not path.parts or str(path) != info.name:
                raise _DamagedError(f"{info.name!r} leads out of the home")
            if not (info.isreg() or info.isdir()):
                raise _DamagedError(f"{info.name} is neither a file nor a folder")
            content = tar.extractfile(info) if info.isreg() else None
            yield info, HashingReader(content) if content else None


def _verify_members(archive: Path) -> Manifest:
    files: dict[str, FileEntry] = {}
    folders: list[str] = []
    manifest: Manifest | None = None
    for info, content in read_members(archive):
        if manifest is not None:
            raise _DamagedError(f"{info.name} comes after the manifest")
        if info.name == MANIFEST and content:
            manifest = parse_manifest(content.read())
        elif content is None:
            folders.append(info.name)
        elif info.name in files:
            raise _DamagedError(f"{info.name} occurs twice")
        else:
            files[info.name] = _compute_entry(info, content)
    if manifest is None:
        raise _DamagedError("it has no manifest at its end")
    _compare_with_manifest(manifest, files, folders)
    return manifest


def _compute_entry(info: tarfile.TarInfo, content: HashingReader) -> FileEntry:
    while content.read(CHUNK_BYTES):
        pass
    return FileEntry(size_bytes=info.size, sha256=content.sha256.hexdigest())


def _compare_with_manifest(manifest: Manifest, files: dict[str, FileEntry], folders: list[str]) -> None:
    for name in sorted(manifest.files.keys() | files.keys()):
        if manifest.files.get(name) != files.get(name):
            raise _DamagedError(f"{name} is not what was backed up")
    if sorted(folders) != sorted(manifest.folders):
        raise _DamagedError("its folders are not what was backed up")
