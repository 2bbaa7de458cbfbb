"""Test the division of a feature file: each row is in one part, which its key decides."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.defaults.arguments import InvalidInput
from pipelines.defaults.channels import compute_data_digest, read_channel
from pipelines.defaults.model import Schema
from pipelines.errors import DataError
from pipelines.features import parts
from pipelines.features.parts import PARTS, divide_file
from pipelines.system.files import sha256

DESCRIPTION = {
    "dataset": "orders",
    "key": ["date", "id"],
    "label": "kind",
    "task": "multiclass",
    "features": {"size": "number", "color": "category"},
}


def write_file(folder: Path, rows: int, **changes: Any) -> Path:
    """Write a feature file with some rows, and return its folder."""
    ids = range(rows)
    frame = pd.DataFrame(
        {
            "date": [f"2026-01-{1 + number % 28:02d}" for number in ids],
            "id": ids,
            "size": [number * 0.5 for number in ids],
            "color": [f"color {number}" if number % 7 else None for number in ids],
            "kind": [["a", "b", "c"][number % 3] for number in ids],
        }
    )
    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    metadata = {b"leeway": json.dumps({**DESCRIPTION, **changes}).encode()}
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pandas(frame, schema.with_metadata(metadata)), folder / "data.parquet")
    return folder


def divide(source: Path, folder: Path) -> dict[str, list[int]]:
    """Divide a file, and return the ids in each part."""
    folder.mkdir()
    divide_file(source, folder)
    return {path.name: pq.read_table(path)["id"].to_pylist() for path in sorted(folder.iterdir())}


def test_each_row_is_in_the_part_of_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_file(tmp_path / "source", 2_000)
    ids = divide(source, tmp_path / "parts")
    assert sorted(number for part in ids.values() for number in part) == list(range(2_000))
    assert len(ids) == PARTS and max(map(len, ids.values())) < 2 * 2_000 / PARTS
    # With more rows, each row stays in its part; and the batches change no byte.
    more_ids = divide(write_file(tmp_path / "more", 2_500), tmp_path / "more-parts")
    assert all([number for number in more_ids[name] if number < 2_000] == part for name, part in ids.items())
    monkeypatch.setattr(parts, "PARTS", 7)
    other_ids = divide(source, tmp_path / "seven")
    monkeypatch.setattr(parts, "BATCH_ROWS", 300)
    assert divide(source, tmp_path / "batches") == other_ids and len(other_ids) == 7
    assert divide(write_file(tmp_path / "positions", 20, key=[]), tmp_path / "by-position")["part-03.parquet"] == [
        *(3, 10, 17)
    ]


def test_a_host_with_some_parts_knows_the_values_of_all_rows(tmp_path: Path) -> None:
    source = write_file(tmp_path / "source", 200)
    divide(source, tmp_path / "parts")
    divide(source, tmp_path / "again")
    assert sha256(tmp_path / "parts") == sha256(tmp_path / "again")
    rows, description = read_channel(source)
    all_rows, _ = read_channel(tmp_path / "parts")
    pd.testing.assert_frame_equal(all_rows.sort_values("id", ignore_index=True), rows)
    digest = compute_data_digest(tmp_path / "parts")
    for path in sorted((tmp_path / "parts").iterdir())[1:]:
        path.unlink()
    share, share_description = read_channel(tmp_path / "parts")
    assert 0 < len(share) < 10
    assert Schema.fit(share, share_description) == Schema.fit(rows, description)
    assert compute_data_digest(tmp_path / "parts") == digest != compute_data_digest(source)
    divide(write_file(tmp_path / "other", 100), tmp_path / "other-parts")
    name = next(path.name for path in (tmp_path / "other-parts").iterdir() if path.name != "part-00.parquet")
    (tmp_path / "other-parts" / name).rename(tmp_path / "parts" / name)
    with pytest.raises(InvalidInput, match=r"has parts of different files\."):
        read_channel(tmp_path / "parts")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"key": ["x"]}, r"lacks the column\(s\) x\."),
        ({"label": "y"}, r"lacks the column\(s\) y\."),
        (None, "damaged|cannot be read"),
    ],
)
def test_a_file_that_cannot_be_divided_is_one_line(tmp_path: Path, changes: Any, problem: str) -> None:
    source = write_file(tmp_path / "source", 20, **(changes or {}))
    if changes is None:
        (source / "data.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=problem):
        divide(source, tmp_path / "parts")
