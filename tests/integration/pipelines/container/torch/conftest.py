"""Provide channels of Parquet files and of shards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

REASON = "torch is not installed: pip install 'leeway[torch]'"
"""Why the tests of this folder are skipped without torch."""
COLUMNS = {"id": "id", "features": ["x", "y"]}
"""Columns of a batch of the Parquet channel."""


def write_rows(folder: Path, *counts: int, group: int = 40) -> Path:
    """Write Parquet files with these numbers of rows; the ids are unique, and `y` is -`x`."""
    folder.mkdir(parents=True, exist_ok=True)
    first = 0
    for number, count in enumerate(counts):
        ids = np.arange(first, first + count)
        table = pa.table({"id": ids, "x": ids / 2, "y": ids / -2, "text": [str(item) for item in ids]})
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=group, write_page_checksum=True)
        first += count
    return folder


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Return a channel of three Parquet files with 501 rows, in 14 row groups."""
    return write_rows(tmp_path / "train", 230, 1, 270)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Return a channel of seven shards with 300 samples."""
    from pipelines.container.torch.write_shards import write_shards

    samples = ({"id.cls": number, "x.npy": np.full(20, number)} for number in range(300))
    assert len(write_shards(tmp_path / "images", samples, shard_bytes=100_000)) == 7
    return tmp_path / "images"


@pytest.fixture(params=["rows", "shards"])
def open_source(request: pytest.FixtureRequest) -> Callable[[], object]:
    """Return a function that opens one of both channels."""
    folder = request.getfixturevalue(request.param)

    def open_channel() -> object:
        from pipelines.container.torch.parquet_rows import ParquetRows
        from pipelines.container.torch.shards import Shards

        return ParquetRows(folder, COLUMNS) if request.param == "rows" else Shards(folder, get_id)

    return open_channel


def get_id(sample: dict[str, object]) -> dict[str, object]:
    """Return the values of a sample that are in a batch."""
    return {"id": sample["id.cls"], "x": sample["x.npy"]}
