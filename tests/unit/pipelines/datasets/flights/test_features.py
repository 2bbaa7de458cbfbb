"""Features are what is known before departure, and nothing else."""

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
from pipelines.features import building

KNOWN_BEFORE = {
    "date", "carrier", "flight", "origin", "dest", "tailnum", "scheduled_at", "sched_dep_time", "sched_arr_time",
    "distance", "plane_year", "plane_manufacturer", "plane_seats",
} | {name for name in COLUMNS if name.startswith("weather_")}  # fmt: skip


def permuted(rows: pa.Table, column: str, seed: int = 5) -> pa.Table:
    """The rows with one column's values in another order."""
    order = list(range(rows.num_rows))
    random.Random(seed).shuffle(order)
    return rows.set_column(
        rows.schema.get_field_index(column), rows.schema.field(column), rows[column].take(pa.array(order))
    )


def built_of(rows: pa.Table, chosen: Dataset = DATASET) -> pa.Table:
    """The features of all rows, sorted by key."""
    return building.build(chosen, ibis.memtable(rows)).order_by(*chosen.key).to_pyarrow()


def feature_bytes(rows: pa.Table, path: Path, chosen: Dataset = DATASET) -> bytes:
    """The features of the rows as Parquet, without the label."""
    pq.write_table(built_of(rows, chosen).drop_columns([chosen.label]), path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def rows(day_rows: Callable[[str], pa.Table]) -> pa.Table:
    return pa.concat_tables([day_rows("2013-01-01"), day_rows("2013-02-08"), day_rows("2013-11-03")])


def test_every_column_is_known_before_or_listed_as_later_known() -> None:
    assert set(COLUMNS) == KNOWN_BEFORE | set(DATASET.later_known)
    assert not KNOWN_BEFORE & set(DATASET.later_known)
    assert DATASET.label in DATASET.later_known
    assert not set(DATASET.features) & set(DATASET.later_known)


@pytest.mark.parametrize("column", DATASET.later_known)
def test_permuting_a_later_known_column_changes_no_byte(column: str, rows: pa.Table, tmp_path: Path) -> None:
    changed = permuted(rows, column)
    assert not changed[column].equals(rows[column])
    assert feature_bytes(changed, tmp_path / "b") == feature_bytes(rows, tmp_path / "a")


def test_removing_all_that_is_later_known_changes_no_byte(rows: pa.Table, tmp_path: Path) -> None:
    emptied = rows
    for name in DATASET.later_known:
        field = rows.schema.field(name)
        emptied = emptied.set_column(rows.schema.get_field_index(name), field, pa.nulls(rows.num_rows, field.type))
    assert feature_bytes(emptied, tmp_path / "b") == feature_bytes(rows, tmp_path / "a")


def leaking(rows: ibis.Table) -> ibis.Table:
    return flights_features.features(rows).mutate(distance=rows.dep_delay)


def test_the_same_check_catches_a_feature_that_leaks(
    rows: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.dataset.Dataset.load_features", lambda self: leaking)
    blind = replace(DATASET, later_known=[name for name in DATASET.later_known if name != "dep_delay"])
    assert feature_bytes(permuted(rows, "dep_delay"), tmp_path / "b", blind) != feature_bytes(
        rows, tmp_path / "a", blind
    )
    assert feature_bytes(permuted(rows, "arr_delay"), tmp_path / "b", blind) == feature_bytes(
        rows, tmp_path / "a", blind
    )


@pytest.mark.parametrize("column", DATASET.later_known)
def test_an_expression_over_what_is_later_known_does_not_compile(
    column: str, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def using(known: ibis.Table) -> ibis.Table:
        return known.mutate(distance=known[column])

    monkeypatch.setattr("pipelines.dataset.Dataset.load_features", lambda self: using)
    with pytest.raises(ibis.common.exceptions.IbisTypeError, match=column):
        built_of(rows)


def test_a_feature_that_is_not_built_is_named(rows: pa.Table) -> None:
    with pytest.raises(DataError, match=r"features of flights lack harbour\."):
        built_of(rows, replace(DATASET, features={**DATASET.features, "harbour": "category"}))


@pytest.mark.parametrize("column", ["distance", "sched_dep_time", "weather_temp", "plane_year", "dest"])
def test_permuting_what_is_known_does_change_them(column: str, rows: pa.Table, tmp_path: Path) -> None:
    assert feature_bytes(permuted(rows, column), tmp_path / "b") != feature_bytes(rows, tmp_path / "a")


def test_the_order_of_the_rows_does_not_matter(rows: pa.Table, tmp_path: Path) -> None:
    order = list(range(rows.num_rows))
    random.Random(1).shuffle(order)
    assert feature_bytes(rows.take(pa.array(order)), tmp_path / "b") == feature_bytes(rows, tmp_path / "a")


def test_one_row_each_with_the_columns_promised(rows: pa.Table) -> None:
    built = built_of(rows)
    assert built.num_rows == rows.num_rows
    wanted = [*DATASET.key, *(name for name in DATASET.features if name not in DATASET.key), DATASET.label]
    assert built.column_names == wanted
    for name, kind in DATASET.features.items():
        assert built.schema.field(name).type == (pa.float64() if kind == "number" else pa.string())


def test_values_by_hand(day_rows: Callable[[str], pa.Table]) -> None:
    rows = day_rows("2013-01-01")
    one = next(row for row in rows.to_pylist() if (row["carrier"], row["flight"]) == ("UA", 1545))
    built = next(row for row in built_of(rows).to_pylist() if (row["carrier"], row["flight"]) == ("UA", 1545))
    same_hour = [
        row
        for row in rows.to_pylist()
        if row["origin"] == "EWR" and row["sched_dep_time"] // 100 == one["sched_dep_time"] // 100
    ]
    assert one["sched_dep_time"] == 515
    assert built["departs_minute"] == 5 * 60 + 15
    assert built["arrives_minute"] == 8 * 60 + 19
    assert built["weekday"] == 1  # a Tuesday
    assert built["plane_age"] == 2013 - 1999
    assert built["departures_hour"] == len(same_hour)
    assert built["late"] is False


def batches_of(rows: pa.Table, size: int) -> list[pa.RecordBatch]:
    return building.build_labelled(DATASET, ibis.memtable(rows)).to_pyarrow().to_batches(max_chunksize=size)


def test_a_split_holds_labelled_rows_only_and_is_the_same_bytes_in_any_batches(
    rows: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "GROUP_ROWS", 1_000)
    wanted = building.feature_schema(DATASET, rows.schema)
    known = sum(value is not None for value in rows["late"].to_pylist())
    assert 1_000 < known < rows.num_rows
    for size in (7, 1_000, 10_000):
        assert building.write_features(batches_of(rows, size), wanted, tmp_path / str(size)) == known
    assert len({(tmp_path / str(size) / building.FILE).read_bytes() for size in (7, 1_000, 10_000)}) == 1
    told = pq.ParquetFile(tmp_path / "7" / building.FILE)
    assert told.metadata.row_group(0).num_rows == 1_000
    assert b"later_known" not in told.schema_arrow.metadata
    assert b'"label": "late"' in told.schema_arrow.metadata[b"leeway"]


@pytest.mark.parametrize("size", [1, 3])
def test_a_key_that_is_there_twice_or_null_is_refused(
    size: int, rows: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "GROUP_ROWS", 2)
    wanted, few = building.feature_schema(DATASET, rows.schema), rows.filter(rows["late"].is_valid()).slice(0, 5)
    assert building.write_features(batches_of(few, size), wanted, tmp_path / "good") == 5
    twice = pa.concat_tables([few, few.slice(2, 1)])
    with pytest.raises(DataError, match=r"the key \{.*'carrier'.*\} occurs twice"):
        building.write_features(batches_of(twice, size), wanted, tmp_path / "bad")
    field = few.schema.field("carrier")
    null = few.set_column(
        few.schema.get_field_index("carrier"), field, pa.array([None, *few["carrier"][1:]], field.type)
    )
    with pytest.raises(DataError, match="the key column carrier is null in 1 rows"):
        building.write_features(batches_of(null, size), wanted, tmp_path / "bad")


@pytest.mark.parametrize("column", sorted(KNOWN_BEFORE - set(DATASET.key)))
def test_a_feature_changes_only_with_the_columns_that_it_is_said_to_rest_on(column: str, rows: pa.Table) -> None:
    made, now, then = (
        building.find_source_columns(DATASET, rows.schema),
        built_of(rows),
        built_of(permuted(rows, column)),
    )
    changed = {name for name in DATASET.features if not now[name].equals(then[name])}
    assert changed <= {name for name, columns in made.items() if column in columns}
    assert bool(changed) == any(column in columns for columns in made.values())


def test_a_feature_rests_on_what_its_neighbours_are_chosen_by(rows: pa.Table) -> None:
    made = building.find_source_columns(DATASET, rows.schema)
    assert made["departures_hour"] == {"date", "origin", "sched_dep_time"}
    assert made["plane_age"] == {"date", "plane_year"}
    assert made["carrier"] == {"carrier"}
