"""Counts of a partition: what numpy counts, whatever is in it, and whatever is not."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import DataError
from pipelines.monitoring.profiles import Policy
from pipelines.monitoring.profiles.counting import count, count_days
from pipelines.monitoring.profiles.profile import total
from pipelines.monitoring.profiles.reference import SCORE_EDGES, Number, Reference, fit
from pipelines.monitoring.profiles.sketch import quantiles
from pipelines.monitoring.profiles.slots import SCORE_BINS

pytestmark = pytest.mark.usefixtures("home")
Save = Callable[[pd.DataFrame], Path]
Rows = Callable[..., pd.DataFrame]


def places(values: np.ndarray, edges: tuple[float, ...]) -> np.ndarray:
    """The bin of each value: 0 below the edges, the last above them. The last bin has its upper edge."""
    at = np.searchsorted(edges[:-1], values, side="right")
    return np.where(values > edges[-1], len(edges), at)


def check_number(frame: pd.DataFrame, column: Number, told: Any) -> None:
    values = frame[column.name].to_numpy(dtype=float)
    known, finite = values[~np.isnan(values)], values[np.isfinite(values)]
    counts = np.bincount(places(known, column.edges), minlength=len(column.edges) + 1)
    assert told.counts == tuple(counts) and told.missing == len(values) - len(known)
    assert (told.n, told.minimum, told.maximum) == (len(finite), finite.min(), finite.max())
    assert told.mean == pytest.approx(finite.mean(), rel=1e-9)
    assert told.m2 == pytest.approx(((finite - finite.mean()) ** 2).sum(), rel=1e-9)


def check(frame: pd.DataFrame, reference: Reference, made: Any) -> None:
    """`made` is what numpy and pandas count."""
    assert made.rows == len(frame)
    for number in (*reference.numbers, reference.score):
        check_number(frame, number, made[number.name])
    for category in reference.categories:
        found, told = frame[category.name], made[category.name]
        by_value = tuple((found == value).sum() for value in category.values)
        rest, missing = found.isin(category.rest).sum(), found.isna().sum()
        assert told.counts == (*by_value, rest, len(frame) - sum(by_value) - rest - missing)
        assert told.missing == missing
    known = frame[frame["late"].notna()]
    assert made["late"].counts == (len(known) - known["late"].sum(), known["late"].sum())
    at = places(known["score"].to_numpy(), SCORE_EDGES) + SCORE_BINS * known["late"].to_numpy(dtype=int)
    assert made.joint.counts == tuple(np.bincount(at, minlength=2 * SCORE_BINS))
    assert made.joint.sums == pytest.approx(np.bincount(at, known["score"], 2 * SCORE_BINS), rel=1e-9)


def test_each_day_is_counted_as_if_it_were_alone(reference: Reference, saved: Save, rows_of: Rows) -> None:
    frame = rows_of(3_000, 2, 0.3)
    frame["date"] = [dt.date(2013, 1, 1) + dt.timedelta(days=n % 7) for n in range(len(frame))]
    frame.loc[frame["date"] == dt.date(2013, 1, 3), "late"] = None
    days = count_days(reference, saved(frame), "date")
    assert list(days) == sorted(set(frame["date"]))
    for day, told in days.items():
        assert told.same(count(reference, saved(frame[frame["date"] == day])))
    assert total(days.values()).same(count(reference, saved(frame)))
    with pytest.raises(DataError, match="no column at"):
        count_days(reference, saved(frame), "at")


def test_it_counts_as_numpy_does(reference: Reference, saved: Save, rows_of: Rows) -> None:
    frame = rows_of(3_000, 2, 0.3)
    check(frame, reference, count(reference, saved(frame)))


def test_a_wrong_count_would_be_seen(reference: Reference, saved: Save, rows_of: Rows) -> None:
    frame = rows_of(300, 2)
    made = count(reference, saved(frame))
    frame.loc[0, "rain"] += 9
    with pytest.raises(AssertionError):
        check(frame, reference, made)


def test_values_at_the_edges_are_of_the_bin_above_but_for_the_last(home: Path, saved: Save) -> None:
    """Edges are observed values: each of 17 digits, of which a decimal would lose the last."""
    edges = tuple(np.sort(np.random.default_rng(5).random(400)).tolist())
    reference = Reference(
        label="y", numbers=(Number(name="x", family="number", edges=edges, center=0.0),), categories=()
    )
    made = count(reference, saved(pd.DataFrame({"x": edges})))
    assert made["x"].counts == (0, *[1] * 398, 2, 0)


@pytest.mark.usefixtures("java")
def test_spark_counts_the_same(reference: Reference, saved: Save, rows_of: Rows) -> None:
    frame = rows_of(3_000, 4)
    path = saved(frame)
    made = count(reference, path, "spark", sketch_rows=100)
    check(frame, reference, made)
    assert count(reference, path, sketch_rows=100).same(made)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_few_rows_and_none(number: int, reference: Reference, saved: Save, rows_of: Rows) -> None:
    made = count(reference, saved(rows_of(200, 6)[:number].convert_dtypes(dtype_backend="pyarrow")), sketch_rows=10)
    assert made.rows == number
    for column in made.columns:
        assert sum(column.counts) + column.missing == number
    assert (made["same"].mean, made["same"].m2) == (4.0 if number else None, 0.0)


def test_a_column_that_vanished_or_has_another_type_is_told_and_the_others_are_counted(
    reference: Reference, saved: Save, rows_of: Rows
) -> None:
    frame = rows_of(50, 7)
    made = count(reference, saved(frame.drop(columns="x").assign(rain="wet", g=1.5)))
    assert (made["x"].absent, made["x"].found, sum(made["x"].counts)) == (50, ("nothing",), 0)
    assert (made["rain"].absent, made["rain"].found[0][-6:], made["rain"].missing) == (50, "string", 0)
    assert (made["g"].absent, made["g"].found) == (50, ("double",))
    assert sum(made["day"].counts) == 50


def test_a_wider_type_is_no_other_type(reference: Reference, saved: Save, rows_of: Rows) -> None:
    frame = rows_of(50, 7)
    made = count(reference, saved(frame.assign(day=frame["day"].astype("float32"), g=frame["g"].astype("category"))))
    assert made.same(count(reference, saved(frame)))


MOMENTS = [dt.datetime(2013, 1, day, 6, 30, tzinfo=dt.UTC) for day in (1, 2, 2)]


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (pa.array([1, 2, 2]), pa.array([1.0, 2.0, 2.0])),
        (pa.array([1.0, 2.0, 2.0]), pa.array([1, 2, 2])),
        (pa.array([1, 2, 2]), pa.array([1, 2, 2]).cast(pa.decimal128(30, 2))),
        (pa.array([1e20, 0.1, 0.1]), pa.array([1e20, 0.1, 0.1])),
        (pa.array([0.5, 1.5, 1.5], pa.float16()), pa.array([0.5, 1.5, 1.5])),
        (pa.array(MOMENTS, pa.timestamp("us")), pa.array(MOMENTS, pa.timestamp("us"))),
        (pa.array(MOMENTS, pa.timestamp("ms", "UTC")), pa.array(MOMENTS, pa.timestamp("us", "UTC"))),
        (pa.array(MOMENTS, pa.timestamp("us", "Asia/Karachi")), pa.array(MOMENTS, pa.timestamp("us", "UTC"))),
        (pa.array(MOMENTS, pa.timestamp("ms", "+05:30")), pa.array(MOMENTS, pa.timestamp("us", "America/New_York"))),
    ],
)
def test_a_category_of_a_wider_type_has_the_same_values(then: pa.Array, now: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"c": then}), tmp_path / "then.parquet")
    pq.write_table(pa.table({"c": now}), tmp_path / "now.parquet")
    reference = fit(tmp_path / "then.parquet", {"c": "category"}, "late", Policy())
    for path in ("then.parquet", "now.parquet"):
        assert count(reference, tmp_path / path)["c"].counts == (2, 1, 0, 0)


def test_a_category_that_was_true_and_is_1_is_of_another_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"c": [True, False]}), tmp_path / "then.parquet")
    pq.write_table(pa.table({"c": [1, 0]}), tmp_path / "now.parquet")
    reference = fit(tmp_path / "then.parquet", {"c": "category"}, "late", Policy())
    assert count(reference, tmp_path / "now.parquet")["c"].found == ("int64",)


@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal256(70, 1), pa.decimal128(30, 1), pa.uint64(), pa.int8()])
def test_any_type_of_a_number_is_counted(kind: pa.DataType, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), tmp_path / "then.parquet")
    pq.write_table(pa.table({"x": pa.array([1, 2, 2, None]).cast(kind)}), tmp_path / "now.parquet")
    reference = fit(tmp_path / "then.parquet", {"x": "number"}, "late", Policy())
    column = count(reference, tmp_path / "now.parquet", sketch_rows=10)["x"]
    assert (column.counts, column.missing, column.maximum) == ((0, 1, 2, 0, 0), 1, 2.0)


def test_a_number_of_which_there_are_lists_now_is_of_another_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0], "c": [dt.date(2013, 1, 1)]}), tmp_path / "then.parquet")
    pq.write_table(pa.table({"x": [[1.0]], "c": [dt.timedelta(1)]}), tmp_path / "now.parquet")
    reference = fit(tmp_path / "then.parquet", {"x": "number", "c": "category"}, "late", Policy())
    made = count(reference, tmp_path / "now.parquet")
    assert [made[name].found for name in "xc"] == [("list<element: double>",), ("duration[us]",)]


@pytest.mark.parametrize("names", [["X", "x"], ["x", "X"], ["x", "x"]])
def test_columns_that_an_engine_cannot_tell_apart_are_refused(names: list[str], tmp_path: Path) -> None:
    # DuckDB reads the first one, whichever is asked for: 1000 would be drift.
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "then.parquet")
    reference = fit(tmp_path / "then.parquet", {"x": "number"}, "late", Policy())
    columns = [pa.array([1000.0, 1000.0]), pa.array([1.0, 2.0])]
    pq.write_table(pa.Table.from_arrays(columns, names), tmp_path / "now.parquet")
    with pytest.raises(DataError, match="the column 'x' twice"):
        count(reference, tmp_path / "now.parquet")


def test_a_column_without_a_value_is_missing_and_not_absent(reference: Reference, saved: Save, rows_of: Rows) -> None:
    made = count(reference, saved(rows_of(9, 8).assign(x=None, rain=np.nan, g=None, late=None)), sketch_rows=5)
    for name in ("x", "rain", "g", "late"):
        assert (made[name].missing, made[name].absent, sum(made[name].counts)) == (9, 0, 0)
    assert made["rain"].mean is None and made["rain"].sketch == b"" and made.joint.missing == 9


@pytest.mark.parametrize("values", [[0.25, np.nan, 0.5, np.nan], [np.nan, np.nan]])
def test_nan_is_missing_whatever_the_file_tells_of_itself(
    values: list[float], reference: Reference, saved: Save, rows_of: Rows
) -> None:
    """The statistics of a Parquet file leave NaN out."""
    made = count(reference, saved(rows_of(len(values), 8).assign(x=values)))["x"]
    finite = [one for one in values if np.isfinite(one)]
    assert (made.missing, sum(made.counts), made.n) == (2, len(finite), len(finite))
    assert made.mean == (np.mean(finite) if finite else None)


def test_nothing_but_infinities(reference: Reference, saved: Save, rows_of: Rows) -> None:
    made = count(reference, saved(rows_of(4, 8).assign(x=[np.inf, -np.inf, np.inf, np.inf])), sketch_rows=5)
    assert (made["x"].counts[0], made["x"].counts[-1], made["x"].n, made["x"].mean) == (1, 3, 0, None)


def test_rows_without_score_and_label(reference: Reference, saved: Save, rows_of: Rows) -> None:
    made = count(reference, saved(rows_of(9, 8).drop(columns=["score", "late"])))
    assert (made["score"].absent, made["late"].absent, made.joint.absent) == (9, 9, 9)
    only_label = count(reference, saved(rows_of(9, 8).drop(columns="score")))
    assert sum(only_label["late"].counts) and only_label.joint.absent == 9


def test_labels_as_numbers_are_labels(reference: Reference, saved: Save, rows_of: Rows) -> None:
    frame = rows_of(99, 8)
    made = count(reference, saved(frame.assign(late=frame["late"].astype("Float64").astype(float))))
    assert made["late"] == count(reference, saved(frame))["late"]


def test_no_column_of_the_reference_at_all(reference: Reference, saved: Save) -> None:
    made = count(reference, saved(pd.DataFrame({"other": [1, 2]})), sketch_rows=5)
    assert {one.absent for one in made.columns} == {2}


def test_a_feature_without_a_value_in_training_takes_what_comes(saved: Save) -> None:
    reference = Reference(label="y", numbers=(Number(name="x", family="null", edges=(), center=0.0),), categories=())
    assert count(reference, saved(pd.DataFrame({"x": [1.0, np.nan]})))["x"].counts == (1,)
    assert count(reference, saved(pd.DataFrame({"x": ["a", "b"]})))["x"].absent == 2


def test_no_file_is_told(reference: Reference, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no Parquet file"):
        count(reference, tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("a,b")
    with pytest.raises(DataError, match="no Parquet file"):
        count(reference, tmp_path / "text.parquet")


def test_sketches_tell_quantiles_of_all_rows_or_of_some(saved: Save, reference: Reference, rows_of: Rows) -> None:
    frame = rows_of(20_000, 9).assign(x=np.random.default_rng(1).random(20_000))
    ranks = [0.1, 0.5, 0.9]
    for some, error in ((100_000, 0.02), (5_000, 0.05)):
        told = quantiles(count(reference, saved(frame), sketch_rows=some)["x"].sketch, ranks)
        assert told == pytest.approx(ranks, abs=error)
    assert quantiles(count(reference, saved(frame))["x"].sketch, ranks) == []
