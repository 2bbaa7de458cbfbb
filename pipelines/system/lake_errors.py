"""Translate the errors that pyiceberg raises for a damaged file of the lake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import FrameType

from pipelines.errors import DataError, LeewayError, ServiceError

ICEBERG_METADATA_READERS = ("pyiceberg.avro", "pyiceberg.manifest", "pyiceberg.serializers", "pyiceberg.table.metadata")
"""Modules that parse a lake's metadata. In pyiceberg 0.12, a damaged file makes them raise errors of any class."""
ICEBERG_ROW_READER = "pyiceberg.io.pyarrow"
"""Module that reads the rows of a lake."""
RESTORE_LAKE = (
    "Run `python -m pipelines lake check --repair`, restore the lake from a backup (`make restore`), or move "
    "LEEWAY_HOME/lake away and ingest again."
)
"""What to do about a damaged lake."""
RESTORE_DAY = (
    "Run the step that writes this day of the table again (`ingest`, then `validate`; or `score`), "
    "`python -m pipelines lake check --repair`, or `make restore`."
)
"""What to do about a damaged data file in the lake: a step that finds it damaged replaces it."""
LAKE_DATA_FILE = re.compile(r"/data/date=[^/]+/")
"""Part of the path of each data file in the lake."""


def translate_lake_error(error: BaseException, reason: str, *, is_content_error: bool) -> LeewayError | None:
    """Translate an error of pyiceberg's readers: a file of the lake is damaged. Return None for any other error.

    Args:
        error: the error.
        reason: text of the error, for the message.
        is_content_error: whether the error's class can mean damaged content. If so, an error that was raised while
            `ICEBERG_ROW_READER` read rows means a damaged file, too.
    """
    frames = list(_list_frames(error))
    readers = (*ICEBERG_METADATA_READERS, ICEBERG_ROW_READER) if is_content_error else ICEBERG_METADATA_READERS
    if not any(str(frame.f_globals.get("__name__", "")).startswith(readers) for frame in frames):
        return None
    location = next(filter(None, map(_find_location, reversed(frames))), "")
    path = location.removeprefix("file://") or "a file of the lake"
    if "://" in path and isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return ServiceError(f"{path} cannot be read: {reason}.", "Check whether the lake's storage answers.")
    return DataError(f"{path} cannot be read: {reason}.", RESTORE_DAY if LAKE_DATA_FILE.search(path) else RESTORE_LAKE)


def _find_location(frame: FrameType) -> str:
    """Return the location of the file that a function of pyiceberg was reading; empty if it was reading none."""
    values = frame.f_locals
    # pyiceberg's file object must not be tested for truth (`input_file or ...`): Python would call its `__len__`, which
    # returns 0 for an empty file and raises an error for a missing one.
    rows_file = getattr(values.get("task"), "file", None)
    return str(getattr(values.get("input_file"), "location", "") or getattr(rows_file, "file_path", ""))


def _list_frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of the error's traceback, the raising one last."""
    traceback = error.__traceback__
    while traceback:
        yield traceback.tb_frame
        traceback = traceback.tb_next
