"""Files that are whole or not there, and their digests."""

from __future__ import annotations

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
    """A temporary file beside `path` that takes its place when the block ends well, and is removed when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        yield Path(name)
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """As `whole`, for a folder: what was at `path` before is replaced, not added to.

    Killed at the very moment of the replacement, `path` may be gone; it is never half of the old or of the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    old = making.with_name(f"{making.name}.old")
    try:
        yield making
        os.chmod(making, 0o755)
        # A full folder cannot be replaced in one call, and deleting it takes a while: so it steps aside first.
        if os.path.lexists(path):
            os.replace(path, old)
        os.replace(making, path)
    finally:
        if os.path.lexists(old) and not os.path.lexists(path):  # the new one could not be put there
            os.replace(old, path)
        for left in (making, old):
            _remove(left)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """`path` holds `value` as sorted, indented JSON: equal values give equal bytes."""
    with replace_file(path) as making:
        making.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_json(path: Path, wanted: str) -> Any:
    """What a JSON file holds.

    Args:
        path: the file.
        wanted: what it is and who makes it, for the message.

    Raises:
        DataError: it is not there, or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} is not there: {wanted}.") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder, not a file: {wanted}.") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}): {wanted}.") from None


def digest_files(folder: Path) -> dict[str, str]:
    """Relative name to SHA-256 of every file of a folder, sorted."""
    names = sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())
    return {name: sha256(folder / name) for name in names}


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file; of a folder, the digest of its sorted relative names and their digests."""
    if path.is_dir():
        listing = "".join(f"{name}\0{told}\n" for name, told in digest_files(path).items())
        return hashlib.sha256(listing.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
