"""Measure how much of a disk a folder takes."""

import os
from pathlib import Path

MAX_ENTRIES = 100_000
"""Largest number of files and folders that are counted. Reading more would take long."""
BLOCK_BYTES = 512
"""Unit of st_blocks, on every system."""


def measure_folder(folder: Path, max_entries: int = MAX_ENTRIES) -> int | None:
    """Return the bytes that the files of a folder take on the disk; None if there are too many to count.

    Files that have just been deleted and folders that cannot be read are left out; links are not followed.

    Args:
        folder: The folder. It may disappear meanwhile.
        max_entries: Largest number of files and folders to count.
    """
    size_bytes, entries, folders = 0, 0, [str(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as iterator:
                for entry in iterator:
                    entries += 1
                    if entries > max_entries:
                        return None
                    size_bytes += _measure_entry(entry)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            continue
    return size_bytes


def _measure_entry(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
    except OSError:
        return 0
