"""How far a source without partitions has been read: a file a dataset, unless somebody else keeps it (Airflow does)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.errors import DataError
from pipelines.settings import settings
from pipelines.system.files import read_json, write_json
from pipelines.system.locks import hold_lock


def read(name: str) -> str | None:
    """The watermark of a dataset; None where it was never read.

    Raises:
        DataError: the file holds something else. A retry cannot help.
    """
    path = _path(name)
    if not path.exists():
        return None
    told = read_json(path, "`sync` writes it; remove it to read the source from its start")
    if not isinstance(told, dict) or not isinstance(told.get("watermark"), str):
        raise DataError(f"{path} holds no watermark.", "Remove it to read the source from its start.")
    return str(told["watermark"])


def write(name: str, watermark: str) -> None:
    """The dataset was read up to here."""
    write_json(_path(name), {"watermark": watermark})


@contextmanager
def hold_sync_lock(name: str) -> Iterator[None]:
    """No other process of this machine syncs the dataset while the block lasts.

    Raises:
        ConflictError: another one does. A retry can help.
    """
    with hold_lock(_path(name).with_suffix(".lock"), f"another sync of {name} is running on this machine."):
        yield


def _path(name: str) -> Path:
    return settings().home / "watermarks" / f"{name}.json"
