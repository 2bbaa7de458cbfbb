"""File names for S3 objects: the name of an object's file below a folder, and which names cannot be files."""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

# The limit of Linux file systems for one part of a path.
PART_MAX_BYTES = 255


def build_local_name(key: str, prefix: str) -> str:
    """Return the path that SageMaker gives an object below its channel's folder.

    If the prefix names a folder (with or without its slash), the path is relative to that folder. Otherwise, the path
    is the part of the key after the last slash of the prefix.

    Args:
        key: The object's key.
        prefix: The S3Prefix that matched it.
    """
    remainder = key[len(prefix) :]
    if not prefix or prefix.endswith("/"):
        return remainder
    if remainder.startswith("/"):
        return remainder[1:]
    return key[prefix.rfind("/") + 1 :]


def find_invalid_names(names: Iterable[str]) -> dict[str, str]:
    """Return the names that cannot be files below one folder, each with the reason.

    Args:
        names: The file names of all objects. A name that occurs twice is invalid.
    """
    paths = [(name, PurePosixPath(name)) for name in names]
    counts = Counter(path for _, path in paths)
    folders = {parent for _, path in paths for parent in path.parents}
    reasons = {}
    for name, path in paths:
        if reason := _find_problem(path) or _find_clash(path, counts, folders):
            reasons[name] = reason
    return reasons


def _find_problem(path: PurePosixPath) -> str:
    if not path.parts:
        return "names no file"
    if path.is_absolute() or ".." in path.parts:
        return "points outside its folder"
    if any(len(part.encode()) > PART_MAX_BYTES for part in path.parts):
        return f"has a part of more than {PART_MAX_BYTES} bytes, which is too long for a file name"
    return "contains a NUL, which a file name cannot contain" if "\0" in str(path) else ""


def _find_clash(path: PurePosixPath, counts: Counter[PurePosixPath], folders: set[PurePosixPath]) -> str:
    if path in folders:
        return "is both a file and the folder of another file"
    return "is the file name of more than one object" if counts[path] > 1 else ""
