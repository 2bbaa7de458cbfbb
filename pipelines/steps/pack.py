"""Puts a pinned window into a folder, to build its features where no lake is: in a processing job.

Idempotent: equal data gives equal files.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.contract import Result, Spec
from pipelines.system.log import log


class PackSpec(Spec):
    """Which window, and where to."""

    snapshot: Path = Path("data/snapshot.json")
    """The pinned window, as `snapshot` wrote it."""
    folder: Path
    """Folder to write: `preprocess` takes it as its `window`."""


class PackResult(Result):
    """A packed window."""

    folder: Path
    """The folder."""
    rows: int
    """Rows of the window."""
    files: int
    """Files that have them."""
    size_bytes: int
    """Size of these files."""


def run(spec: PackSpec) -> PackResult:
    """`spec.folder` holds the pinned window, whole.

    Raises:
        DataError: no snapshot file, or the snapshot is gone from the lake.
    """
    from pipelines.features import pinned
    from pipelines.system.files import replace_folder

    with pinned.open_from_lake(spec.snapshot) as window, replace_folder(spec.folder) as making:
        pinned.pack(window, making)
        sizes = [Path(path).stat().st_size for path in window.paths]
    log.info("packed %s: %d files, %d bytes", window.snapshot.window(), len(sizes), sum(sizes))
    return PackResult(folder=spec.folder, rows=window.snapshot.rows, files=len(sizes), size_bytes=sum(sizes))
