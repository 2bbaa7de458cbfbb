"""Pack folders into tar archives reproducibly (equal folders give equal bytes), and unpack archives safely.

A job's model and output are packed; models and source bundles are unpacked.
"""

import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from drydock.transfer.walk import Entry, EntryKind, list_entries

# A small archive can contain enough to fill the disk.
UNPACKED_MAX_BYTES = 20_000_000_000
UNPACKED_MAX_MEMBERS = 1_000_000


def pack(folder: Path, archive: Path) -> list[str]:
    """Write a folder's content to a .tar.gz archive, with paths relative to the folder.

    Deterministic: names are sorted, times and owners are not stored, and a link to a file in the folder is replaced by
    a copy of the file.

    Returns:
        The names of the omitted entries: links that lead out of the folder or nowhere, sockets, fifos, devices.

    Raises:
        OSError: The disk is full, or a file cannot be read; the archive is deleted then. A retry can help.
    """
    entries = list_entries(folder)
    try:
        with (
            archive.open("wb") as file,
            gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as gzip_file,
            # dereference: otherwise the second name of a hard link is stored as a link to the first name.
            tarfile.open(fileobj=gzip_file, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as tar,
        ):
            for entry in entries:
                _add_entry(tar, entry, folder)
    except BaseException:
        archive.unlink(missing_ok=True)
        raise
    return [entry.name for entry in entries if entry.kind is EntryKind.OTHER]


def unpack(
    archive: Path, folder: Path, *, max_bytes: int = UNPACKED_MAX_BYTES, max_members: int = UNPACKED_MAX_MEMBERS
) -> None:
    """Unpack an archive into a folder.

    Args:
        archive: A tar file, compressed or not.
        folder: The folder for the content.
        max_bytes: Maximum size of the unpacked files together.
        max_members: Maximum number of members.

    Raises:
        ValueError: The archive is damaged or too large, or a member is a device, lies outside the folder or is a link
            that leads out of it: a retry cannot help. Or the disk is full: a retry can help. What was unpacked until
            then stays.
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


def merge(folders: Sequence[Path], target: Path) -> list[str]:
    """Merge the contents of several folders into one. Of entries with the same name, that of the first folder is used.

    The files are hard links to the originals, if the file system supports that.

    Args:
        folders: One folder for each host, algo-1 first.
        target: The merged folder; its earlier content is deleted.

    Returns:
        The names of the omitted entries, by the same rule as in `pack`.

    Raises:
        OSError: The disk is full, or a file cannot be read. A retry can help.
    """
    _delete(target)
    target.mkdir(parents=True)
    omitted_names = []
    for folder in reversed(folders):
        for entry in list_entries(folder):
            if entry.kind is EntryKind.OTHER:
                omitted_names.append(entry.name)
            else:
                _merge_entry(entry, folder, target / entry.name)
    return sorted(set(omitted_names))


def is_empty(folder: Path) -> bool:
    """Return whether a folder has no entries."""
    return next(folder.iterdir(), None) is None


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    if hasattr(tarfile, "data_filter"):
        tar.extract(member, folder, filter="data")
        return
    # Python before 3.11.4, as in Debian 12, has no such filter. Refuse more than the filter does: all links, absolute
    # names (the filter makes them relative), and all names with `..` (the filter allows names that stay in the folder).
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{member.name} leads out of the folder")
    if not (member.isfile() or member.isdir()):
        raise ValueError(f"{member.name} is neither a file nor a folder: links need Python 3.11.4")
    tar.extract(_anonymize(member), folder)


def _add_entry(tar: tarfile.TarFile, entry: Entry, folder: Path) -> None:
    if entry.kind is EntryKind.LINK:
        member = tarfile.TarInfo(entry.name)
        member.type, member.linkname = tarfile.SYMTYPE, _compute_link_target(entry, folder)
        tar.addfile(_anonymize(member))
    elif entry.kind is not EntryKind.OTHER:
        tar.add(entry.path, arcname=entry.name, recursive=False, filter=_anonymize)


def _merge_entry(entry: Entry, folder: Path, target: Path) -> None:
    if entry.kind is EntryKind.FOLDER and target.is_dir() and not target.is_symlink():
        return
    _delete(target)
    if entry.kind is EntryKind.FOLDER:
        target.mkdir()
    elif entry.kind is EntryKind.LINK:
        target.symlink_to(_compute_link_target(entry, folder))
    else:
        _link_or_copy(entry.path, target)


def _delete(target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copy2(source, target)


def _compute_link_target(entry: Entry, folder: Path) -> str:
    return os.path.relpath(entry.path, folder.resolve() / PurePosixPath(entry.name).parent)


def _anonymize(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove a member's time and owner, and reduce its mode to executable or not."""
    member.mtime = 0
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member
