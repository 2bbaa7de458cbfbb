"""The compiled features are those that training computes from the same rows, in the order of the request."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pytest

from pipelines.container.serving.compiled_features import parse_compiled_features
from pipelines.container.serving.feature_query import FeatureError, FeatureQuery, connect
from pipelines.dataset import Dataset, load_dataset
from pipelines.datasets.flights import DATASET
from pipelines.datasets.flights import features as flights_features
from pipelines.errors import DataError, SpecError
from pipelines.features import building
from pipelines.features.columns import KEY_PREFIX
from pipelines.features.dependencies import list_features_of_other_rows, list_redefined_columns
from pipelines.serving.compilation import compile_features

NEIGHBOURS = "departures_hour"
ROOT = Path(__file__).parents[4]


@contextmanager
def open_query(dataset: Dataset, schema: pa.Schema, *, has_lookups: bool = False) -> Iterator[FeatureQuery]:
    """Compile the features, write them as a package does, and yield the query on a connection of its own."""
    compiled = compile_features(dataset, schema, has_lookups=has_lookups)
    parsed = parse_compiled_features(compiled.format())
    assert parsed == compiled and parsed.format() == compiled.format()
    query = parsed.lookup_query if has_lookups else parsed.query
    assert query is not None
    with closing(connect()) as connection:
        yield FeatureQuery(query, parsed.row_schema, connection)


def compute(query: FeatureQuery, rows: pa.Table) -> pa.Table:
    return query.compute({name: rows[name].to_pylist() for name in query.columns}, rows.num_rows)


def test_a_whole_day_has_the_features_of_training_in_the_order_of_the_request(
    query: FeatureQuery, day: pa.Table
) -> None:
    expected = building.build_sorted_features(DATASET, ibis.memtable(day)).to_pyarrow()
    order = list(range(day.num_rows))
    random.Random(3).shuffle(order)
    keys = expected.select(DATASET.key).to_pylist()
    positions = {tuple(key.values()): position for position, key in enumerate(keys)}
    shuffled = day.take(order)
    expected = expected.take([positions[tuple(key.values())] for key in shuffled.select(DATASET.key).to_pylist()])
    features = compute(query, shuffled)
    assert features.column_names == list(DATASET.features)
    for name in DATASET.features:
        assert features[name].equals(expected[name].cast(features[name].type)), name


@pytest.mark.parametrize("name", ["flight_delay", "flight_status"])
def test_datasets_that_share_rows_or_compute_their_label_are_served(home: Any, day: pa.Table, name: str) -> None:
    dataset = load_dataset(name)
    expected = building.build_sorted_features(dataset, ibis.memtable(day)).to_pyarrow()
    ordered = day.sort_by([(column, "ascending") for column in dataset.key])
    with open_query(dataset, day.schema) as query:
        assert not set(query.columns) & {dataset.label, *dataset.known_later}
        together, first = compute(query, ordered), compute(query, ordered.slice(0, 1))
    for column in dataset.features:
        assert together[column].equals(expected[column].cast(together[column].type)), column
    assert first.drop_columns([NEIGHBOURS]).equals(together.slice(0, 1).drop_columns([NEIGHBOURS]))


def test_one_row_has_the_same_bits_but_for_its_neighbours(query: FeatureQuery, day: pa.Table) -> None:
    """The prepared statement and the query of many rows agree on each row. The control is the count of neighbours."""
    together = compute(query, day)
    alone = pa.concat_tables([compute(query, day.slice(number, 1)) for number in range(day.num_rows)])
    different = [name for name in DATASET.features if not alone[name].equals(together[name])]
    assert different == [NEIGHBOURS]
    assert set(alone[NEIGHBOURS].to_pylist()) == {1.0}


@pytest.mark.parametrize("text", ["O'Hare", "a\0b", "'); DROP TABLE x; --", "Île", ""])
def test_a_text_is_a_value_and_no_sql(query: FeatureQuery, day: pa.Table, text: str) -> None:
    values = {name: day.slice(0, 1)[name].to_pylist() for name in query.columns} | {"dest": [text]}
    assert query.compute(values, 1)["dest"].to_pylist() == [text]


def test_numbers_as_sql_keep_their_bits(query: FeatureQuery, day: pa.Table) -> None:
    """The SQL of one row has numbers as literals."""
    values = {name: day.slice(0, 1)[name].to_pylist() for name in query.columns}
    numbers = [0.1, 20.714039999999997, -0.0, 5e-324, 1.7976931348623157e308, -1e22, 123456789.123456789, 1e-7]
    features = [query.compute(values | {"weather_temp": [number]}, 1) for number in numbers]
    assert [struct.pack("d", *row["weather_temp"].to_pylist()) for row in features] == [
        struct.pack("d", number) for number in numbers
    ]
    for whole in (-(2**31), -1, 0, 2**31 - 1):
        assert query.compute(values | {"distance": [whole]}, 1)["distance"].to_pylist() == [whole]


def test_missing_values_stay_missing(query: FeatureQuery) -> None:
    features = query.compute({name: [None] for name in query.columns}, 1).to_pylist()[0]
    assert features == dict.fromkeys(DATASET.features) | {NEIGHBOURS: 1.0}


def test_names_the_features_that_depend_on_other_rows(day: pa.Table) -> None:
    assert list_features_of_other_rows(DATASET, day.schema) == [NEIGHBOURS]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda rows: rows.mutate(x=rows.distance + 1), []),
        (lambda rows: rows.mutate(y=rows.count().over(ibis.window(group_by=rows.date))).mutate(x=ibis._.y * 2), ["x"]),
        (lambda rows: rows.mutate(x=rows.distance - rows.distance.mean()), ["x"]),
        (lambda rows: rows.left_join(rows.group_by("carrier").agg(x=rows.count()), "carrier"), ["x"]),
    ],
)
def test_finds_each_form_of_other_rows(
    day: pa.Table, monkeypatch: pytest.MonkeyPatch, build: Any, expected: list[str]
) -> None:
    monkeypatch.setattr(flights_features, "features", build)
    dataset = replace(DATASET, features={"x": "number", "distance": "number"})
    assert list_features_of_other_rows(dataset, day.schema) == expected


def test_features_that_drop_rows_are_refused(home: Any, day: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights_features, "features", lambda rows: rows.filter(rows.distance > 500))
    dataset = replace(DATASET, features={"distance": "number"})
    with open_query(dataset, day.schema) as query:
        assert query.compute({"distance": [501]}, 1).to_pylist() == [{"distance": 501.0}]
        for distances in ([100], [501, 100]):
            with pytest.raises(FeatureError, match=rf"the features have {len(distances) - 1} rows for"):
                query.compute({"distance": distances}, len(distances))


def test_a_missing_column_of_the_rows_is_an_error(home: Any, day: pa.Table) -> None:
    with pytest.raises(DataError, match=r"cannot be built from its rows: .*sched_dep_time"):
        compile_features(DATASET, day.drop_columns(["sched_dep_time"]).schema, has_lookups=False)


def test_looked_up_features_are_not_computed_but_their_keys_are(home: Any, day: pa.Table, query: FeatureQuery) -> None:
    (hour,) = DATASET.lookups
    with open_query(DATASET, day.schema, has_lookups=True) as shorter:
        together = compute(shorter, day)
        alone = pa.concat_tables([compute(shorter, day.slice(number, 1)) for number in range(50)])
    keys = [f"{KEY_PREFIX}{name}" for name in hour.key]
    computed = [name for name in DATASET.features if name not in hour.features]
    assert together.column_names == [*computed, *keys]
    assert alone.equals(together.slice(0, 50))  # no feature of other rows is left
    assert together.select(computed).equals(compute(query, day).select(computed))
    assert together[keys[2]].to_pylist() == [minute // 100 for minute in day["sched_dep_time"].to_pylist()]
    assert set(query.columns) - set(shorter.columns) == {name for name in hour.features if name != NEIGHBOURS}


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("gate", "that is neither a column of the rows nor added by `features`"),
        ("count_of_day", "that depends on other rows"),
        ("weather_temp", "of the type float64: it must be a whole number"),
        ("arr_delay", "that is neither a column of the rows nor added by `features`"),
    ],
)
def test_a_key_that_one_row_does_not_give_is_refused(
    home: Any, day: pa.Table, monkeypatch: pytest.MonkeyPatch, key: str, problem: str
) -> None:
    build = flights_features.features
    monkeypatch.setattr(
        flights_features,
        "features",
        lambda rows: build(rows).mutate(count_of_day=ibis._.count().over(group_by="date")),
    )
    lookup = replace(DATASET.lookups[0], features={NEIGHBOURS: 1}, key=("date", key))
    with pytest.raises(SpecError, match=re.escape(f"has a key column {key} {problem}")):
        compile_features(replace(DATASET, lookups=[lookup]), day.schema, has_lookups=True)


def test_the_compiled_features_do_not_depend_on_the_code_any_more(
    home: Any, day: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_query(DATASET, day.schema) as query:
        expected = compute(query, day)
        text = compile_features(DATASET, day.schema, has_lookups=False).format()
        monkeypatch.setattr(
            flights_features, "features", lambda rows: rows.mutate(**dict.fromkeys(DATASET.features, 1))
        )
        assert compute(query, day).equals(expected)
    assert compile_features(DATASET, day.schema, has_lookups=False).format() != text, "the control"


def test_a_function_that_only_ibis_knows_is_refused(home: Any, day: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    @ibis.udf.scalar.python
    def double(value: int) -> int:
        return 2 * value

    monkeypatch.setattr(flights_features, "features", lambda rows: rows.mutate(x=double(rows.distance)))
    with pytest.raises(DataError, match=r"DuckDB alone cannot compute the features of flights: .*double"):
        compile_features(replace(DATASET, features={"x": "number"}), day.schema, has_lookups=False)


def test_finds_features_with_the_name_of_a_column_and_another_value(
    day: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {"distance": "number", "plane_seats": "number", "dest": "category", "flight": "category", "x": "number"}
    dataset = replace(DATASET, features=kinds)
    monkeypatch.setattr(flights_features, "features", lambda rows: rows.mutate(x=rows.distance, distance=rows.distance))
    assert list_redefined_columns(dataset, day.schema) == ["flight"]  # a number as a category
    assert list_redefined_columns(dataset, day.schema, ["plane_seats"]) == ["plane_seats", "flight"]
    monkeypatch.setattr(flights_features, "features", lambda rows: rows.mutate(x=1, distance=rows.distance / 1000))
    assert list_redefined_columns(dataset, day.schema) == ["distance", "flight"]


PRINT_DIGEST = """
import hashlib, pyarrow as pa
from pipelines.datasets.flights import DATASET
from pipelines.serving.compilation import compile_features
rows = pa.ipc.open_stream("rows.arrow").read_all()
for has_lookups in (False, True):
    print(hashlib.sha256(compile_features(DATASET, rows.schema, has_lookups=has_lookups).format().encode()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(1,), pytest.param((1, 2), marks=pytest.mark.soak)])
def test_processes_compile_equal_features_to_equal_files(
    day: pa.Table,
    tmp_path: Path,
    seeds: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python orders sets by a number that each process draws, this one too."""
    with pa.ipc.new_stream(tmp_path / "rows.arrow", day.schema) as writer:
        writer.write_table(day.slice(0, 0))
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(PRINT_DIGEST, {})
    digests = {capsys.readouterr().out} | {
        subprocess.run(
            [sys.executable, "-c", PRINT_DIGEST], cwd=tmp_path, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in seeds
    }  # fmt: skip
    assert len(digests) == 1 and digests.pop().count("\n") == 2
