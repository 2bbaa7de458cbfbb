"""Tar archives: model.tar.gz made so that equal folders give equal bytes, source bundles unpacked safely."""

import gzip
import tarfile
import zlib
from pathlib import Path


def pack(folder: Path, archive: Path) -> None:
    """The archive holds folder's content, with paths below it.

    Deterministic: names are sorted, there are no times and no owners.

    Raises:
        OSError: The disk is full, or a file cannot be read.
    """
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*")):
            tar.add(path, arcname=path.relative_to(folder).as_posix(), recursive=False, filter=_anonymous)


def unpack(archive: Path, folder: Path) -> None:
    """The folder holds the archive's content.

    Raises:
        ValueError: The archive is damaged, or a member would land outside folder (or is a device).
    """
    try:
        with tarfile.open(archive, mode="r:*") as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(f"cannot unpack {archive.name}: {type(error).__name__}: {error}") from error


def is_empty(folder: Path) -> bool:
    """Return whether there is nothing in the folder."""
    return next(folder.iterdir(), None) is None


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = 0
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member
