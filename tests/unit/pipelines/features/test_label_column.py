"""Test labels that a dataset's label.py computes: their values, and the functions that are refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pytest

from pipelines import datasets
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError, SpecError
from pipelines.features import label_column
from pipelines.features.building import build_features
from pipelines.features.label_column import (
    build_label,
    build_label_query,
    check_label_type,
    compute_labels,
    find_label_type,
)
from pipelines.system.duckdb_session import connect

PARCELS = Dataset(
    name="parcels",
    key=("date", "number"),
    label="is_late",
    known_later=("arrived", "promised"),
    features={"weight": "number"},
)
FIRST, SECOND = dt.date(2026, 1, 1), dt.date(2026, 1, 2)
ROWS = pa.table(
    {
        "date": pa.array([FIRST, FIRST, FIRST, SECOND]),
        "number": pa.array([3, 1, 2, 1]),
        "weight": pa.array([1.0, 2.0, 3.0, 4.0]),
        "promised": pa.array([10, 10, 10, 10]),
        "arrived": pa.array([11, 9, None, None], pa.int64()),
    }
)
LABELS = [True, False, None, None]


def is_late(rows: ibis.Table) -> ibis.Column:
    return rows.arrived > rows.promised


@pytest.fixture
def use_label(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Return the function that makes another function that of the datasets' label.py. Features are columns of rows."""
    monkeypatch.setattr(Dataset, "load_feature_function", lambda _: lambda rows: rows)

    def use(function: Any) -> None:
        monkeypatch.setattr(label_column, "load_label_function", lambda _: function)

    return use


def test_the_label_is_computed_in_the_order_of_the_rows(use_label: Callable[[Any], None]) -> None:
    use_label(is_late)
    assert compute_labels(PARCELS, ROWS).to_pylist() == LABELS
    assert find_label_type(PARCELS, ROWS.schema) == pa.bool_()
    features = build_features(PARCELS, ibis.memtable(ROWS)).order_by("date", "number").to_pyarrow()
    assert features.column_names == ["date", "number", "weight", "is_late"]
    assert features["is_late"].to_pylist() == [False, None, True, None], "a label that is not known yet is null"


def test_the_query_of_outcomes_has_the_same_labels(use_label: Callable[[Any], None]) -> None:
    for function in (is_late, None):
        use_label(function)
        rows = ROWS if function else ROWS.append_column("is_late", pa.array(LABELS))
        with connect() as connection:
            connection.register("published rows", rows)
            query = build_label_query(PARCELS, connection, "published rows")
            result = connection.sql(f"SELECT * FROM ({query}) ORDER BY date, number").to_arrow_table()
        assert result.column_names == ["date", "number", "label"]
        assert result["label"].to_pylist() == [False, None, True, None]


def test_features_see_neither_the_label_nor_the_columns_that_it_is_computed_from(
    use_label: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_label(is_late)
    for name in ("is_late", "arrived", "promised"):
        leak: Any = lambda rows, name=name: rows.mutate(weight=rows[name].cast("float64"))  # noqa: E731
        monkeypatch.setattr(Dataset, "load_feature_function", lambda _, leak=leak: leak)
        with pytest.raises(ibis.common.exceptions.IbisTypeError, match=f"'{name}' is not found"):
            build_features(PARCELS, ibis.memtable(ROWS))


def return_table(rows: ibis.Table) -> ibis.Table:
    return rows.mutate(is_late=rows.arrived > rows.promised)


def filter_rows(rows: ibis.Table) -> ibis.Column:
    return rows.filter(rows.arrived.notnull()).arrived > 10


def compare_with_other_days(rows: ibis.Table) -> ibis.Column:
    return rows.arrived > rows.arrived.mean()


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (return_table, "must be a column of `rows`, and `label` returned Table"),
        (lambda rows: "arrived", "must be a column of `rows`, and `label` returned str"),
        (lambda rows: None, "returned NoneType"),
        (lambda rows: rows.arrived.max(), "returned IntegerScalar"),
        (filter_rows, "must be a column of `rows` itself"),
        (lambda rows: rows.arrived.isin(rows.filter(rows.promised > 9).promised), "from a query of its own"),
        (compare_with_other_days, "depends on rows of other days; group its window functions by date"),
        (lambda rows: rows.arrived + ibis.random() > 10, "depends on chance, the clock"),
        (lambda rows: rows.arrived > ibis.now().hour(), "depends on chance, the clock"),
        (lambda rows: rows.weight > rows.arrived, "is computed from weight, which features may use"),
        (lambda rows: rows.number > 1, "is computed from no column of `known_later`"),
        (lambda rows: rows.arived > 1, "cannot be computed: 'Table' object has no attribute 'arived'"),
        (lambda rows: rows.arrived - rows.promised, r"is int64: it must be true or false, .* the task is binary"),
        (lambda rows: rows.arrived.cast("timestamp"), "it must be true or false"),
    ],
)
def test_a_function_that_gives_no_valid_label_is_one_clear_line(
    use_label: Callable[[Any], None], function: Any, problem: str
) -> None:
    use_label(function)
    for check in (lambda: check_label_type(PARCELS, ROWS.schema), lambda: build_features(PARCELS, ibis.memtable(ROWS))):
        with pytest.raises(DataError, match=problem) as error:
            check()
        assert error.value.exit_code == 2 and "\n" not in error.value.message and "parcels" in error.value.message


def test_a_window_within_the_partition_is_allowed(use_label: Callable[[Any], None]) -> None:
    use_label(lambda rows: rows.arrived > rows.arrived.mean().over(group_by=rows.date))
    assert compute_labels(PARCELS, ROWS).to_pylist() == [True, False, None, None]
    hourly = replace(PARCELS, partition="hour", key=("date", "hour", "number"))
    rows = ibis.memtable(ROWS.append_column("hour", pa.array([1, 1, 1, 2])))
    with pytest.raises(DataError, match="group its window functions by date and hour"):
        build_label(hourly, rows)
    use_label(lambda rows: rows.arrived > rows.arrived.mean().over(group_by=[rows.date, rows.hour]))
    build_label(hourly, rows)


def test_a_column_of_the_same_name_is_refused(use_label: Callable[[Any], None]) -> None:
    rows = ibis.memtable(ROWS.append_column("is_late", pa.array(LABELS)))
    use_label(is_late)
    with pytest.raises(DataError, match=r"has a label\.py, but its rows have a column is_late already"):
        build_label(PARCELS, rows)
    use_label(None)
    assert build_label(PARCELS, rows).get_name() == "is_late", "the negative control: the column is the label"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("labels_1", "from ibis import nothing", "label.py of labels_1 cannot be used: .*nothing"),
        ("labels_2", "import no_such_module", "there is no module no_such_module"),
        ("labels_3", "def labels(rows): return rows.arrived", "has no attribute 'label'"),
    ],
)
def test_a_label_file_that_cannot_be_used_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str, problem: str
) -> None:
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(tmp_path)])
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    dataset = replace(PARCELS, name=name)
    assert label_column.load_label_function(dataset) is None, (
        "the negative control: without label.py the label is a column"
    )
    (tmp_path / name / "label.py").write_text(content)
    with pytest.raises(SpecError, match=problem):
        label_column.load_label_function(dataset)


def test_flight_status_distinguishes_a_cancelled_flight_from_one_that_has_not_flown_yet() -> None:
    dataset, other = load_dataset("flight_status"), dt.date(2013, 3, 2)
    day = dt.date(2013, 3, 1)
    cases: list[tuple[dt.date, int | None, int | None, int | None, str | None]] = [
        (day, 800, 1000, 15, "on_time"),
        (day, 800, 1001, 16, "late"),
        (day, None, None, None, "cancelled"),
        (day, 800, 1000, None, "late"),  # diverted, and arrived elsewhere
        (day, 800, None, None, "late"),  # diverted
        (other, None, None, None, None),  # no flight of this day has arrived
        (other, 800, None, None, None),
    ]
    dates, departures, arrivals, delays, labels = map(list, zip(*cases, strict=True))
    rows = pa.table({"date": dates, "dep_time": departures, "arr_time": arrivals, "arr_delay": delays})
    assert compute_labels(dataset, rows).to_pylist() == labels
