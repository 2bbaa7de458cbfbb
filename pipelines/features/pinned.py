"""The rows of a pinned window as Parquet files: in the lake, or in a folder that takes them where no lake is.

Such a folder has snapshot.json, columns.parquet (no rows: their names and types) and rows/NUMBER.parquet. Equal data
gives equal files under equal names.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import DataError
from pipelines.features.pin import PinnedWindow

SNAPSHOT, COLUMNS, ROWS = "snapshot.json", "columns.parquet", "rows"


@dataclass(frozen=True)
class PinnedRows:
    """A window, and where its rows are on this machine."""

    snapshot: PinnedWindow
    paths: Sequence[str]
    schema: pa.Schema
    """Of the rows; a file may lack a column (it is null), or have it narrower."""


@contextmanager
def open_from_lake(snapshot: Path) -> Iterator[PinnedRows]:
    """The window that the file pins, for as long as the block lasts.

    Raises:
        DataError: no such file, or the snapshot is gone from the lake.
    """
    from pipelines.lake import Lake

    told = PinnedWindow.read(snapshot)
    days = told.window().all
    with Lake.open().open_files(told.table, days.first, days.last, told.snapshot_id) as (paths, schema):
        yield PinnedRows(told, paths, schema)


def open_packed(folder: Path) -> PinnedRows:
    """The window that `pack` put into the folder.

    Raises:
        DataError: it is not there, or not whole.
    """
    try:
        schema = pq.read_schema(folder / COLUMNS)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{folder} is no packed window: {error}.", "The step `pack` writes it.") from None
    paths = sorted(str(path) for path in (folder / ROWS).glob("*.parquet"))
    wanted = int((schema.metadata or {}).get(b"files", b"-1"))
    if len(paths) != wanted:
        raise DataError(f"{folder} has {len(paths)} files of rows, and should have {wanted}.", "Pack it again.")
    return PinnedRows(PinnedWindow.read(folder / SNAPSHOT), paths, schema.remove_metadata())


def pack(pinned: PinnedRows, folder: Path) -> None:
    """The empty `folder` has the window; its files are links where the file system allows that."""
    (folder / ROWS).mkdir(parents=True)
    for number, path in enumerate(pinned.paths):
        _link_or_copy(path, folder / ROWS / f"{number:06d}.parquet")
    told = pinned.schema.with_metadata({b"files": str(len(pinned.paths)).encode()})
    pq.write_table(pa.Table.from_batches([], schema=told), folder / COLUMNS)
    (folder / SNAPSHOT).write_text(pinned.snapshot.model_dump_json(indent=2), encoding="utf-8")


def _link_or_copy(path: str, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(path, target)
