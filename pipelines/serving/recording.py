"""Record the key, the features and the score of each row of requests, for the step `skew`."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import DataError, SpecError
from pipelines.system.log import log

Row = dict[str, Any]


class Recorder:
    """Appends a JSON line for each row to a file of the day and the process. Only one thread may use a recorder.

    If a line cannot be written, the error is logged, and the request is answered nevertheless.

    Args:
        folder: folder of the files; created if it does not exist.

    Raises:
        SpecError: the folder cannot be created. A retry cannot help.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpecError(f"the folder {folder} of recorded requests cannot be created: {error.strerror}.") from None
        self._folder = folder

    def record(self, origin: Mapping[str, str], rows: Sequence[Row]) -> None:
        """Append rows.

        Args:
            origin: fields that all rows get: model and version.
            rows: rows with `key`, `features` and `score`.
        """
        now = dt.datetime.now(dt.UTC)
        lines = (json.dumps({"at": now.isoformat(), **origin, **row}, default=_format_time) for row in rows)
        try:
            with (self._folder / f"{now:%Y-%m-%d}-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
        except OSError as error:
            log.error("a request was not recorded: %s", error)


def read_recorded_rows(folder: Path) -> Iterator[Row]:
    """Yield the rows in the files of a folder. An incomplete last line, which a killed server may leave, is ignored.

    Raises:
        DataError: the folder has no file `*.jsonl`, or a line is not a recorded row. A retry cannot help.
    """
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise DataError(f"{folder} has no recorded requests.", "`serve --record FOLDER` writes them.")
    for path in paths:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.endswith("\n"):
                    yield _parse(path, number, line)


def _parse(path: Path, number: int, line: str) -> Row:
    try:
        row: Row = json.loads(line)
        row["model"], row["version"], row["key"], row["features"], row["score"]  # a KeyError if one is missing
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}, line {number} is not a recorded row.", "`serve --record` writes the files.") from None
    return row


def _format_time(value: Any) -> str:
    return str(value.isoformat())
