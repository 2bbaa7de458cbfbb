"""Where an object lands: from a key in S3 to a file's name below a folder."""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

# What Linux file systems take for one name.
SEGMENT_MAX_BYTES = 255


def local_name(key: str, prefix: str) -> str:
    """Return where below a channel's folder SageMaker puts an object that an S3Prefix matched.

    A prefix that names a folder (with or without its slash) gives paths below it; one that is a whole key, or
    ends within a name, gives the name.
    """
    rest = key[len(prefix) :]
    if not prefix or prefix.endswith("/"):
        return rest
    if rest.startswith("/"):
        return rest[1:]
    return key[prefix.rfind("/") + 1 :]


def faults(names: Iterable[str]) -> dict[str, str]:
    """Return which of the names cannot be files below one folder, each with the reason.

    Args:
        names: What `local_name` gave, one for each object. A name given twice is a fault of both.
    """
    paths = [(name, PurePosixPath(name)) for name in names]
    count = Counter(path for _, path in paths)
    folders = {parent for _, path in paths for parent in path.parents}
    found = {}
    for name, path in paths:
        if reason := _fault(path) or _clash(path, count, folders):
            found[name] = reason
    return found


def _fault(path: PurePosixPath) -> str:
    if path.is_absolute() or ".." in path.parts or not path.parts:
        return "points outside its folder"
    if any(len(part.encode()) > SEGMENT_MAX_BYTES for part in path.parts):
        return f"has a part of more than {SEGMENT_MAX_BYTES} bytes, which no file's name may have"
    return "holds a NUL, which no file's name may" if "\0" in str(path) else ""


def _clash(path: PurePosixPath, count: Counter[PurePosixPath], folders: set[PurePosixPath]) -> str:
    if path in folders:
        return "is a file and also the folder of another one"
    return "is the place of more than one object" if count[path] > 1 else ""
