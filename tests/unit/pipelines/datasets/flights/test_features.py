"""Test that features use only what is known before departure."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.dataset import Dataset
from pipelines.datasets.flights import DATASET
from pipelines.datasets.flights import features as flights_features
from pipelines.datasets.flights.source import COLUMNS
from pipelines.errors import DataError
from pipelines.feature_files import FILE_NAME
from pipelines.features import building, dependencies

KNOWN_BEFORE = {
    "date", "carrier", "flight", "origin", "dest", "tailnum", "scheduled_at", "sched_dep_time", "sched_arr_time",
    "distance", "plane_year", "plane_manufacturer", "plane_seats",
} | {name for name in COLUMNS if name.startswith("weather_")}  # fmt: skip


def permute(rows: pa.Table, column: str, seed: int = 5) -> pa.Table:
    """Return the rows with the values of one column in another order."""
    order = list(range(rows.num_rows))
    random.Random(seed).shuffle(order)
    return rows.set_column(
        rows.schema.get_field_index(column), rows.schema.field(column), rows[column].take(pa.array(order))
    )


def build_features(rows: pa.Table, dataset: Dataset = DATASET) -> pa.Table:
    """Build the features of all rows, sorted by key."""
    return building.build_features(dataset, ibis.memtable(rows)).order_by(*dataset.key).to_pyarrow()


def write_features(rows: pa.Table, path: Path, dataset: Dataset = DATASET) -> bytes:
    """Write the features of the rows as Parquet, without the label, and return the bytes."""
    pq.write_table(build_features(rows, dataset).drop_columns([dataset.label]), path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def rows(day_rows: Callable[[str], pa.Table]) -> pa.Table:
    return pa.concat_tables([day_rows("2013-01-01"), day_rows("2013-02-08"), day_rows("2013-11-03")])


def test_every_column_is_known_before_departure_or_listed_as_known_later() -> None:
    assert set(COLUMNS) == KNOWN_BEFORE | set(DATASET.known_later)
    assert not KNOWN_BEFORE & set(DATASET.known_later)
    assert DATASET.label in DATASET.known_later
    assert not set(DATASET.features) & set(DATASET.known_later)


@pytest.mark.parametrize("column", DATASET.known_later)
def test_permuting_a_known_later_column_changes_no_byte(column: str, rows: pa.Table, tmp_path: Path) -> None:
    permuted_rows = permute(rows, column)
    assert not permuted_rows[column].equals(rows[column])
    assert write_features(permuted_rows, tmp_path / "b") == write_features(rows, tmp_path / "a")


def test_removing_all_known_later_columns_changes_no_byte(rows: pa.Table, tmp_path: Path) -> None:
    known_rows = rows
    for name in DATASET.known_later:
        field = rows.schema.field(name)
        known_rows = known_rows.set_column(
            rows.schema.get_field_index(name), field, pa.nulls(rows.num_rows, field.type)
        )
    assert write_features(known_rows, tmp_path / "b") == write_features(rows, tmp_path / "a")


def leak_delay(rows: ibis.Table) -> ibis.Table:
    return flights_features.features(rows).mutate(distance=rows.dep_delay)


def test_the_same_check_finds_a_feature_that_leaks(
    rows: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.dataset.Dataset.load_feature_function", lambda self: leak_delay)
    dataset = replace(DATASET, known_later=[name for name in DATASET.known_later if name != "dep_delay"])
    assert write_features(permute(rows, "dep_delay"), tmp_path / "b", dataset) != write_features(
        rows, tmp_path / "a", dataset
    )
    assert write_features(permute(rows, "arr_delay"), tmp_path / "b", dataset) == write_features(
        rows, tmp_path / "a", dataset
    )


@pytest.mark.parametrize("column", DATASET.known_later)
def test_an_expression_over_a_known_later_column_does_not_compile(
    column: str, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use_column(table: ibis.Table) -> ibis.Table:
        return table.mutate(distance=table[column])

    monkeypatch.setattr("pipelines.dataset.Dataset.load_feature_function", lambda self: use_column)
    with pytest.raises(ibis.common.exceptions.IbisTypeError, match=column):
        build_features(rows)


def test_an_error_names_a_feature_that_is_not_built(rows: pa.Table) -> None:
    with pytest.raises(DataError, match=r"features of flights lack harbour\."):
        build_features(rows, replace(DATASET, features={**DATASET.features, "harbour": "category"}))


@pytest.mark.parametrize("column", ["distance", "sched_dep_time", "weather_temp", "plane_year", "dest"])
def test_permuting_a_known_column_changes_the_features(column: str, rows: pa.Table, tmp_path: Path) -> None:
    assert write_features(permute(rows, column), tmp_path / "b") != write_features(rows, tmp_path / "a")


def test_the_order_of_the_rows_does_not_matter(rows: pa.Table, tmp_path: Path) -> None:
    order = list(range(rows.num_rows))
    random.Random(1).shuffle(order)
    assert write_features(rows.take(pa.array(order)), tmp_path / "b") == write_features(rows, tmp_path / "a")


def test_each_row_has_features_with_the_declared_columns(rows: pa.Table) -> None:
    features = build_features(rows)
    assert features.num_rows == rows.num_rows
    expected = [*DATASET.key, *(name for name in DATASET.features if name not in DATASET.key), DATASET.label]
    assert features.column_names == expected
    for name, kind in DATASET.features.items():
        assert features.schema.field(name).type == (pa.float64() if kind == "number" else pa.string())


def test_features_equal_values_computed_by_hand(day_rows: Callable[[str], pa.Table]) -> None:
    rows = day_rows("2013-01-01")
    flight = next(row for row in rows.to_pylist() if (row["carrier"], row["flight"]) == ("UA", 1545))
    features = next(row for row in build_features(rows).to_pylist() if (row["carrier"], row["flight"]) == ("UA", 1545))
    same_hour = [
        row
        for row in rows.to_pylist()
        if row["origin"] == "EWR" and row["sched_dep_time"] // 100 == flight["sched_dep_time"] // 100
    ]
    assert flight["sched_dep_time"] == 515
    assert features["departs_minute"] == 5 * 60 + 15
    assert features["arrives_minute"] == 8 * 60 + 19
    assert features["weekday"] == 1  # Tuesday
    assert features["plane_age"] == 2013 - 1999
    assert features["departures_hour"] == len(same_hour)
    assert features["late"] is False


def build_batches(rows: pa.Table, size: int) -> list[pa.RecordBatch]:
    return building.build_labelled_features(DATASET, ibis.memtable(rows)).to_pyarrow().to_batches(max_chunksize=size)


def test_a_split_has_only_labelled_rows_and_equal_bytes_for_any_batch_size(
    rows: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "GROUP_ROWS", 1_000)
    schema = building.build_feature_schema(DATASET, rows.schema)
    labelled_count = sum(value is not None for value in rows["late"].to_pylist())
    assert 1_000 < labelled_count < rows.num_rows
    for size in (7, 1_000, 10_000):
        assert building.write_features(build_batches(rows, size), schema, tmp_path / str(size)) == labelled_count
    assert len({(tmp_path / str(size) / FILE_NAME).read_bytes() for size in (7, 1_000, 10_000)}) == 1
    file = pq.ParquetFile(tmp_path / "7" / FILE_NAME)
    assert file.metadata.row_group(0).num_rows == 1_000
    assert b"known_later" not in file.schema_arrow.metadata
    assert b'"label": "late"' in file.schema_arrow.metadata[b"leeway"]


@pytest.mark.parametrize("size", [1, 3])
def test_refuses_a_key_that_is_repeated_or_null(
    size: int, rows: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "GROUP_ROWS", 2)
    schema, five_rows = (
        building.build_feature_schema(DATASET, rows.schema),
        rows.filter(rows["late"].is_valid()).slice(0, 5),
    )
    assert building.write_features(build_batches(five_rows, size), schema, tmp_path / "good") == 5
    rows_with_repeated_key = pa.concat_tables([five_rows, five_rows.slice(2, 1)])
    with pytest.raises(DataError, match=r"the key \{.*'carrier'.*\} occurs twice"):
        building.write_features(build_batches(rows_with_repeated_key, size), schema, tmp_path / "bad")
    field = five_rows.schema.field("carrier")
    rows_with_null_key = five_rows.set_column(
        five_rows.schema.get_field_index("carrier"), field, pa.array([None, *five_rows["carrier"][1:]], field.type)
    )
    with pytest.raises(DataError, match="the key column carrier is null in 1 rows"):
        building.write_features(build_batches(rows_with_null_key, size), schema, tmp_path / "bad")


@pytest.mark.parametrize("column", sorted(KNOWN_BEFORE - set(DATASET.key)))
def test_a_feature_changes_only_with_its_source_columns(column: str, rows: pa.Table) -> None:
    sources, features, changed_features = (
        dependencies.find_source_columns(DATASET, rows.schema),
        build_features(rows),
        build_features(permute(rows, column)),
    )
    changed_names = {name for name in DATASET.features if not features[name].equals(changed_features[name])}
    assert changed_names <= {name for name, columns in sources.items() if column in columns}
    assert bool(changed_names) == any(column in columns for columns in sources.values())


def test_source_columns_include_those_that_group_rows(rows: pa.Table) -> None:
    sources = dependencies.find_source_columns(DATASET, rows.schema)
    assert sources["departures_hour"] == {"date", "origin", "sched_dep_time"}
    assert sources["plane_age"] == {"date", "plane_year"}
    assert sources["carrier"] == {"carrier"}
