"""Tar archives: model.tar.gz made so that equal folders give equal bytes, source bundles unpacked safely."""

import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from drydock.transfer.walk import Entry, Kind, in_order

UNPACKED_MAX_BYTES = 20_000_000_000
UNPACKED_MAX_MEMBERS = 1_000_000


def pack(folder: Path, archive: Path) -> list[str]:
    """The archive holds folder's content, with paths below it.

    Deterministic: names are sorted, there are no times and no owners; a link to a file of the folder is that file.

    Returns:
        The names that are left out: links that lead out or nowhere, sockets, fifos, devices.

    Raises:
        OSError: The disk is full, or a file cannot be read; there is no archive then.
    """
    entries = in_order(folder)
    try:
        with (
            archive.open("wb") as raw,
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
            # dereference: without it, the second name of a file with two is stored as a link to the first.
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as tar,
        ):
            for entry in entries:
                _add(tar, entry, folder)
    except BaseException:
        archive.unlink(missing_ok=True)
        raise
    return [entry.name for entry in entries if entry.kind is Kind.OTHER]


def unpack(
    archive: Path, folder: Path, *, max_bytes: int = UNPACKED_MAX_BYTES, max_members: int = UNPACKED_MAX_MEMBERS
) -> None:
    """The folder holds the archive's content.

    Args:
        archive: A tar file, compressed or not.
        folder: Where the content goes.
        max_bytes: What the unpacked files may have together.
        max_members: How many members there may be.

    Raises:
        ValueError: The archive is damaged or too big, or a member would land outside folder (or is a device).
    """
    size = 0
    try:
        with tarfile.open(archive, mode="r:*") as tar:
            for count, member in enumerate(tar, start=1):
                size += member.size
                if size > max_bytes or count > max_members:
                    raise ValueError(f"more than {max_bytes} bytes or {max_members} members")
                _extract(tar, member, folder)
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:
        raise ValueError(f"cannot unpack {archive.name}: {type(error).__name__}: {error}") from error


def merge(folders: Sequence[Path], into: Path) -> list[str]:
    """The folder into holds what all the folders hold; where names are equal, the first folder's counts.

    Files are hard links to the ones in the folders, where the file system has them.

    Args:
        folders: One for each host, algo-1 first.
        into: A folder; what is in it is gone.

    Returns:
        The names that are left out, as `pack` leaves them out.

    Raises:
        OSError: The disk is full, or a file cannot be read.
    """
    _clear(into)
    into.mkdir(parents=True)
    left_out = []
    for folder in reversed(folders):
        for entry in in_order(folder):
            if entry.kind is Kind.OTHER:
                left_out.append(entry.name)
            else:
                _put(entry, folder, into / entry.name)
    return sorted(set(left_out))


def is_empty(folder: Path) -> bool:
    """Return whether there is nothing in the folder."""
    return next(folder.iterdir(), None) is None


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    if hasattr(tarfile, "data_filter"):
        tar.extract(member, folder, filter="data")
        return
    # Python before 3.11.4, which Debian 12 has: what that filter lets through, but for links, which are hard to judge.
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{member.name} leads out of the folder")
    if not (member.isfile() or member.isdir()):
        raise ValueError(f"{member.name} is no file and no folder: links need Python 3.11.4")
    tar.extract(_anonymous(member), folder)


def _add(tar: tarfile.TarFile, entry: Entry, folder: Path) -> None:
    if entry.kind is Kind.LINK:
        member = tarfile.TarInfo(entry.name)
        member.type, member.linkname = tarfile.SYMTYPE, _target(entry, folder)
        tar.addfile(_anonymous(member))
    elif entry.kind is not Kind.OTHER:
        tar.add(entry.path, arcname=entry.name, recursive=False, filter=_anonymous)


def _put(entry: Entry, folder: Path, target: Path) -> None:
    if entry.kind is Kind.FOLDER and target.is_dir() and not target.is_symlink():
        return
    _clear(target)
    if entry.kind is Kind.FOLDER:
        target.mkdir()
    elif entry.kind is Kind.LINK:
        target.symlink_to(_target(entry, folder))
    else:
        _link(entry.path, target)


def _clear(target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copy2(source, target)


def _target(entry: Entry, folder: Path) -> str:
    return os.path.relpath(entry.path, folder.resolve() / PurePosixPath(entry.name).parent)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = 0
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member
