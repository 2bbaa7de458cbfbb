"""Open the rows of a pinned window as Parquet files: from the lake, or from a packed folder, which `pack` writes.

A machine without the lake, such as a processing job, uses a packed folder. It has snapshot.json (the window),
columns.parquet (the names and types of the columns, without rows) and rows/NUMBER.parquet. The same pinned window
gives equal files with equal names.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.dataset import load_dataset
from pipelines.errors import DataError
from pipelines.features.pinned_window import PinnedWindow

SNAPSHOT_FILE, COLUMNS_FILE, ROWS_FOLDER = "snapshot.json", "columns.parquet", "rows"
"""Names of the files and of the folder in a packed folder."""


@dataclass(frozen=True)
class PinnedRows:
    """A pinned window, and the files on this machine that hold its rows."""

    window: PinnedWindow
    paths: Sequence[str]
    """Paths of the files."""
    schema: pa.Schema
    """Columns of the rows. A column that a file lacks is null. A file may have a narrower type for a column."""


@contextmanager
def open_from_lake(snapshot: Path) -> Iterator[PinnedRows]:
    """Yield the window in the file `snapshot`, and the paths of its rows, which are valid until the `with` block ends.

    The rows also include days before the window, if features of the window's first rows look up values of these days.

    Args:
        snapshot: path of the file that the step `snapshot` wrote.

    Raises:
        DataError: `snapshot` does not exist or is not valid, or the lake has removed the Iceberg snapshot. A retry
            cannot help.
    """
    from pipelines.features.earlier_values import find_first_needed_day
    from pipelines.lake import Lake

    window = PinnedWindow.read(snapshot)
    days = window.get_window().all_days
    first_day = find_first_needed_day(load_dataset(window.dataset), dt.datetime.combine(days.first, dt.time(), dt.UTC))
    with Lake.open().open_files(window.table, first_day, days.last, window.snapshot_id) as (paths, schema):
        yield PinnedRows(window, paths, schema)


def open_packed_folder(folder: Path) -> PinnedRows:
    """Return the window and the rows that `pack` wrote to the folder.

    Raises:
        DataError: the folder has no complete window. A retry cannot help.
    """
    try:
        schema = pq.read_schema(folder / COLUMNS_FILE)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{folder} is not a packed window: {error}.", "The step `pack` writes it.") from None
    paths = sorted(str(path) for path in (folder / ROWS_FOLDER).glob("*.parquet"))
    expected_count = int((schema.metadata or {}).get(b"files", b"-1"))
    if len(paths) != expected_count:
        raise DataError(f"{folder} has {len(paths)} data files instead of {expected_count}.", "Pack it again.")
    return PinnedRows(PinnedWindow.read(folder / SNAPSHOT_FILE), paths, schema.remove_metadata())


def pack(rows: PinnedRows, folder: Path) -> None:
    """Write the window and its rows to an empty folder. Data files are hard links if the file system allows them."""
    (folder / ROWS_FOLDER).mkdir(parents=True)
    for number, path in enumerate(rows.paths):
        _link_or_copy(path, folder / ROWS_FOLDER / f"{number:06d}.parquet")
    schema = rows.schema.with_metadata({b"files": str(len(rows.paths)).encode()})
    pq.write_table(pa.Table.from_batches([], schema=schema), folder / COLUMNS_FILE)
    (folder / SNAPSHOT_FILE).write_text(rows.window.model_dump_json(indent=2), encoding="utf-8")


def _link_or_copy(path: str, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(path, target)
