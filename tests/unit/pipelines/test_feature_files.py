"""Test that features name their dataset, and that another dataset is refused."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.feature_files import FILE_NAME, METADATA_KEY, load_dataset_of_features


def write_features(folder: Path, description: bytes | None) -> Path:
    """Write features with the description in their metadata; return their folder."""
    table = pa.table({"x": [1.0]})
    if description is not None:
        table = table.replace_schema_metadata({METADATA_KEY: description})
    (folder / "train").mkdir()
    pq.write_table(table, folder / "train" / FILE_NAME)
    return folder


def test_features_name_their_dataset(tmp_path: Path) -> None:
    features = write_features(tmp_path, json.dumps({"dataset": "weather"}).encode())
    assert load_dataset_of_features(features).name == "weather"
    assert load_dataset_of_features(features, "weather").name == "weather"
    with pytest.raises(SpecError, match="has the features of weather, not of flights") as error:
        load_dataset_of_features(features, "flights")
    assert error.value.exit_code == 2


def test_features_without_a_name_need_one(tmp_path: Path) -> None:
    features = write_features(tmp_path, None)
    assert load_dataset_of_features(features, "flights").name == "flights"
    with pytest.raises(SpecError, match="project's datasets: flight_delay, flight_status, flights, weather"):
        load_dataset_of_features(features)


def test_missing_and_damaged_features_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.parquet does not exist"):
        load_dataset_of_features(tmp_path)
    (write_features(tmp_path, None) / "train" / FILE_NAME).write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read"):
        load_dataset_of_features(tmp_path)
