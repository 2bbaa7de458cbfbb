"""The file of compiled features keeps every type, is bounded, and refuses what is no such file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.container.serving import compiled_features
from pipelines.container.serving.compiled_features import (
    FILE_NAME,
    CompiledFeatures,
    CompiledLookup,
    Query,
    parse_compiled_features,
    read_compiled_features,
)

ROWS = pa.schema(
    [
        ("date", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("seats", pa.int16()),
        ('a "name"\n', pa.string()),
    ]
)
QUERY = Query(["date"], ["DATE"], "SELECT 1", "SELECT $1", pa.schema([("x", pa.float64())]))
COMPILED = CompiledFeatures(
    row_schema=ROWS,
    known_later=["seats"],
    key=["date"],
    partition="day",
    features={"x": "number", "y": "category"},
    changed_features=[],
    features_of_other_rows=["x"],
    query=QUERY,
    lookups=[CompiledLookup("hour", "group", ["leeway.key.date"], {"x": 0.1 + 0.2, "y": None}, 60.0)],
    lookup_query=QUERY,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a package."""
    path = tmp_path / "code" / FILE_NAME
    path.parent.mkdir()
    path.write_text(COMPILED.format())
    return path


def test_a_file_has_all_types_and_bits(file: Path, tmp_path: Path) -> None:
    assert read_compiled_features(tmp_path) == COMPILED
    file.unlink()
    assert read_compiled_features(tmp_path) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 4}, "its format is 4, not 3 or older"),
        ({"query": None}, "cannot be read"),
        ({"color": "red"}, "cannot be read: .*color"),
        ({"row_schema": [["a", "int32", "AAAA"]]}, "cannot be read"),
        ({"row_schema": [["a", "int32", "no base64"]]}, "cannot be read"),
        ({"lookups": [{"name": "hour"}]}, "cannot be read"),
    ],
)
def test_another_file_is_refused(file: Path, tmp_path: Path, change: dict[str, object], message: str) -> None:
    file.write_text(json.dumps({**json.loads(COMPILED.format()), **change}))
    with pytest.raises(ValueError, match=f"{FILE_NAME} {message}|{FILE_NAME} .*{message}"):
        read_compiled_features(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "{}"])
def test_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"{FILE_NAME} cannot be read"):
        parse_compiled_features(text)


def test_the_size_is_bounded(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_features, "MAX_BYTES", 100)
    with pytest.raises(ValueError, match="has more than 100 bytes"):
        read_compiled_features(tmp_path)
    with pytest.raises(ValueError, match="have more than 100 bytes"):
        replace(COMPILED, key=["date"]).format()
