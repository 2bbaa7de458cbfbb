"""Store the watermark of each dataset: the largest cursor that was read from its source. One file for each dataset.

Only a sync outside of Airflow uses these files. In Airflow, the state store of the asset has the watermark. Every sync
uses the lock file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.errors import DataError
from pipelines.settings import settings
from pipelines.system.files import read_json, write_json
from pipelines.system.locks import hold_lock


def read_watermark(dataset: str) -> str | None:
    """Return the stored watermark of a dataset; None if there is none.

    Raises:
        DataError: the file does not hold a watermark. A retry cannot help.
    """
    path = _get_path(dataset)
    if not path.exists():
        return None
    content = read_json(path, "`sync` writes it; remove it to read the source from its start")
    if not isinstance(content, dict) or not isinstance(content.get("watermark"), str):
        raise DataError(f"{path} holds no watermark.", "Remove it to read the source from its start.")
    return str(content["watermark"])


def write_watermark(dataset: str, watermark: str) -> None:
    """Store the watermark of a dataset. Idempotent."""
    write_json(_get_path(dataset), {"watermark": watermark})


@contextmanager
def hold_sync_lock(dataset: str) -> Iterator[None]:
    """Keep other processes of this machine from syncing the dataset while the block runs.

    Raises:
        ConflictError: another process syncs the dataset. A retry can help.
    """
    with hold_lock(_get_path(dataset).with_suffix(".lock"), f"another sync of {dataset} is running on this machine."):
        yield


def _get_path(dataset: str) -> Path:
    return settings().home / "watermarks" / f"{dataset}.json"
