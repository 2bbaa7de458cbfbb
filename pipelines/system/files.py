"""Write files and folders that are never incomplete, read JSON files, and compute digests."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.errors import DataError


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`; move it to `path` when the block ends, or remove it after an error.

    Raises:
        OSError: the file cannot be written; or `path` is a pipe or a device, which must not be replaced.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileExistsError(errno.EEXIST, "not a regular file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    try:
        yield Path(name)
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; move it to `path` when the block ends, or remove it after an error.

    The new folder replaces a file or folder at `path`. If the process is killed during the move, there may be no folder
    at `path`, but never an incomplete one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    old_folder = temporary.with_name(f"{temporary.name}.old")
    try:
        yield temporary
        os.chmod(temporary, 0o755)
        # A folder with files cannot be replaced in one call, and deleting it is slow: the old one is moved first.
        if os.path.lexists(path):
            os.replace(path, old_folder)
        os.replace(temporary, path)
    finally:
        if os.path.lexists(old_folder) and not os.path.lexists(path):  # the new folder could not be moved to `path`
            os.replace(old_folder, path)
        for leftover in (temporary, old_folder):
            _remove(leftover)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as sorted, indented JSON: equal values give equal bytes. The file is never incomplete."""
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_json(path: Path, origin: str) -> Any:
    """Return the content of a JSON file.

    Args:
        path: the file.
        origin: what writes the file, or what it is. The error message ends with this text and a full stop.

    Raises:
        DataError: the file does not exist, or is not JSON. A retry cannot help.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist: {origin}.") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder, not a file: {origin}.") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}): {origin}.") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if the file is missing or damaged, or has something else."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def digest_files(folder: Path) -> dict[str, str]:
    """Map the relative name of each file of a folder to its SHA-256, sorted by name."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {name: sha256(folder / name) for name in names}


def sha256(path: Path) -> str:
    """Return the hex SHA-256 of a file; of a folder, the digest of its sorted relative names and their digests."""
    if path.is_dir():
        listing = "".join(f"{name}\0{digest}\n" for name, digest in digest_files(path).items())
        return hashlib.sha256(listing.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
