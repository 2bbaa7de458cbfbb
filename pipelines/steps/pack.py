"""Pack a pinned window into a folder, so that a processing job can build its features without the lake.

Idempotent: equal data gives equal files.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.contract import Result, Spec
from pipelines.system.log import log


class PackSpec(Spec):
    """The window to pack, and the folder to write."""

    snapshot: Path = Path("data/snapshot.json")
    """The pinned window, as `snapshot` wrote it."""
    folder: Path
    """Folder to write. The step `preprocess` reads this folder if its field `window` names it."""


class PackResult(Result):
    """A packed window."""

    folder: Path
    """The folder."""
    rows: int
    """Rows of the window."""
    files: int
    """Number of files with the rows."""
    size_bytes: int
    """Size of these files."""


def run(spec: PackSpec) -> PackResult:
    """Write the pinned window to `spec.folder`.

    Raises:
        DataError: the snapshot file does not exist, or the lake does not have the snapshot any more. A retry cannot
            help.
    """
    from pipelines.features import pinned_rows
    from pipelines.system.files import replace_folder

    with pinned_rows.open_from_lake(spec.snapshot) as rows, replace_folder(spec.folder) as folder:
        pinned_rows.pack(rows, folder)
        sizes = [Path(path).stat().st_size for path in rows.paths]
    log.info("packed %s: %d files, %d bytes", rows.window.get_window(), len(sizes), sum(sizes))
    return PackResult(folder=spec.folder, rows=rows.window.rows, files=len(sizes), size_bytes=sum(sizes))
