"""Test the counts of a file against counts by numpy and pandas, which share no code with the queries."""

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
from pipelines.monitoring.profiles import BinPolicy
from pipelines.monitoring.profiles.column_plans import SCORE_BINS
from pipelines.monitoring.profiles.counting import count_days, count_file
from pipelines.monitoring.profiles.profile import sum_profiles
from pipelines.monitoring.profiles.reference import SCORE_EDGES, NumberBins, Reference, fit_reference

pytestmark = pytest.mark.usefixtures("home")
Save = Callable[[pd.DataFrame], Path]
Rows = Callable[..., pd.DataFrame]


def find_bins(values: np.ndarray, edges: tuple[float, ...]) -> np.ndarray:
    """Return the bin of each value: 0 below the edges, the last one above. The last bin includes its upper edge."""
    bins = np.searchsorted(edges[:-1], values, side="right")
    return np.where(values > edges[-1], len(edges), bins)


def check_number(frame: pd.DataFrame, column: NumberBins, counted_column: Any) -> None:
    values = frame[column.name].to_numpy(dtype=float)
    present, finite = values[~np.isnan(values)], values[np.isfinite(values)]
    counts = np.bincount(find_bins(present, column.edges), minlength=len(column.edges) + 1)
    assert counted_column.counts == tuple(counts) and counted_column.missing == len(values) - len(present)
    assert (counted_column.n, counted_column.minimum, counted_column.maximum) == (
        len(finite),
        finite.min(),
        finite.max(),
    )
    assert counted_column.mean == pytest.approx(finite.mean(), rel=1e-9)
    assert counted_column.squared_deviations == pytest.approx(((finite - finite.mean()) ** 2).sum(), rel=1e-9)


def check_profile(frame: pd.DataFrame, reference: Reference, profile: Any) -> None:
    """Check that the profile has the counts of numpy and pandas."""
    assert profile.rows == len(frame)
    for number in (*reference.numbers, reference.score):
        check_number(frame, number, profile[number.name])
    for category in reference.categories:
        values, counted_column = frame[category.name], profile[category.name]
        by_value = tuple((values == value).sum() for value in category.values)
        rest_count, missing_count = values.isin(category.rest).sum(), values.isna().sum()
        assert counted_column.counts == (*by_value, rest_count, len(frame) - sum(by_value) - rest_count - missing_count)
        assert counted_column.missing == missing_count
    labelled_frame = frame[frame["late"].notna()]
    assert profile["late"].counts == (len(labelled_frame) - labelled_frame["late"].sum(), labelled_frame["late"].sum())
    cells = find_bins(labelled_frame["score"].to_numpy(), SCORE_EDGES) + SCORE_BINS * labelled_frame["late"].to_numpy(
        dtype=int
    )
    assert profile.joint.counts == tuple(np.bincount(cells, minlength=2 * SCORE_BINS))
    assert profile.joint.sums == pytest.approx(np.bincount(cells, labelled_frame["score"], 2 * SCORE_BINS), rel=1e-9)


def test_counts_of_a_day_equal_those_of_a_file_with_that_day(
    reference: Reference, save: Save, generate_rows: Rows
) -> None:
    frame = generate_rows(3_000, 2, 0.3)
    frame["date"] = [dt.date(2013, 1, 1) + dt.timedelta(days=n % 7) for n in range(len(frame))]
    frame.loc[frame["date"] == dt.date(2013, 1, 3), "late"] = None
    days = count_days(reference, save(frame), "date")
    assert list(days) == sorted(set(frame["date"]))
    for day, profile in days.items():
        assert profile.is_equivalent(count_file(reference, save(frame[frame["date"] == day])))
    assert sum_profiles(days.values()).is_equivalent(count_file(reference, save(frame)))
    with pytest.raises(DataError, match="no column at"):
        count_days(reference, save(frame), "at")


def test_counts_equal_those_of_numpy(reference: Reference, save: Save, generate_rows: Rows) -> None:
    frame = generate_rows(3_000, 2, 0.3)
    check_profile(frame, reference, count_file(reference, save(frame)))


def test_the_check_fails_for_a_wrong_count(reference: Reference, save: Save, generate_rows: Rows) -> None:
    frame = generate_rows(300, 2)
    profile = count_file(reference, save(frame))
    frame.loc[0, "rain"] += 9
    with pytest.raises(AssertionError):
        check_profile(frame, reference, profile)


def test_a_bin_includes_its_lower_edge_and_the_last_bin_its_upper_edge(home: Path, save: Save) -> None:
    """Edges are observed values of 17 digits. Read as decimals, they would lose the last digit."""
    edges = tuple(np.sort(np.random.default_rng(5).random(400)).tolist())
    reference = Reference(
        label="y", numbers=(NumberBins(name="x", family="number", edges=edges, center=0.0),), categories=()
    )
    profile = count_file(reference, save(pd.DataFrame({"x": edges})))
    assert profile["x"].counts == (0, *[1] * 398, 2, 0)


NUMERIC_REFERENCE = Reference(
    label="late",
    numbers=(),
    categories=(),
    target=NumberBins(name="late", family="number", edges=(-20.0, 0.0, 15.0, 60.0), center=5.0),
)


def build_numeric_rows(rows: int = 2_000) -> pd.DataFrame:
    """Return labels and scores of a regression, some of them null, NaN or infinite."""
    random = np.random.default_rng(6)
    label = random.normal(5.0, 30.0, size=rows)
    score = label + random.normal(0.0, 10.0, size=rows)
    label[:5], score[3:9] = [np.nan, np.inf, -np.inf, 1.0, 1.0], [np.nan, np.inf, 1.0, 1.0, -np.inf, np.nan]
    return pd.DataFrame({"late": pd.array(label).astype("Float64"), "score": score})


def check_errors(frame: pd.DataFrame, profile: Any) -> None:
    """Check the label, the score and the errors of a regression against numpy."""
    label, score = (frame[name].to_numpy(dtype=float, na_value=np.nan) for name in ("late", "score"))
    assert NUMERIC_REFERENCE.target
    for values, column in ((label, profile["late"]), (score, profile["score"])):
        present = values[~np.isnan(values)]
        counts = np.bincount(find_bins(present, NUMERIC_REFERENCE.target.edges), minlength=5)
        assert (column.counts, column.missing) == (tuple(counts), len(values) - len(present))
    errors = (score - label)[np.isfinite(label) & np.isfinite(score)]
    assert (profile.labelled_rows, profile.errors.missing) == (len(errors), len(frame) - len(errors))
    assert profile.errors.sums == pytest.approx((np.abs(errors).sum(), (errors**2).sum()))


def test_counts_the_errors_of_a_regression(save: Save) -> None:
    frame = build_numeric_rows()
    check_errors(frame, count_file(NUMERIC_REFERENCE, save(frame)))
    for missing in ("late", "score"):
        profile = count_file(NUMERIC_REFERENCE, save(frame.drop(columns=missing)))
        assert (profile.labelled_rows, profile.errors.absent) == (0, len(frame))


@pytest.mark.slow
@pytest.mark.usefixtures("java")
@pytest.mark.soak
def test_spark_counts_the_same(reference: Reference, save: Save, generate_rows: Rows) -> None:
    frame = generate_rows(3_000, 4)
    path = save(frame)
    profile = count_file(reference, path, "spark")
    check_profile(frame, reference, profile)
    assert count_file(reference, path).is_equivalent(profile)
    numeric_path = save(numeric_frame := build_numeric_rows())
    numeric_profile = count_file(NUMERIC_REFERENCE, numeric_path, "spark")
    check_errors(numeric_frame, numeric_profile)
    assert count_file(NUMERIC_REFERENCE, numeric_path).is_equivalent(numeric_profile)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_counts_few_rows_and_no_rows(number: int, reference: Reference, save: Save, generate_rows: Rows) -> None:
    profile = count_file(reference, save(generate_rows(200, 6)[:number].convert_dtypes(dtype_backend="pyarrow")))
    assert profile.rows == number
    for column in profile.columns:
        assert sum(column.counts) + column.missing == number
    assert (profile["same"].mean, profile["same"].squared_deviations) == (4.0 if number else None, 0.0)


def test_reports_vanished_and_retyped_columns_and_counts_the_others(
    reference: Reference, save: Save, generate_rows: Rows
) -> None:
    frame = generate_rows(50, 7)
    profile = count_file(reference, save(frame.drop(columns="x").assign(rain="wet", g=1.5)))
    assert (profile["x"].absent, profile["x"].actual_types, sum(profile["x"].counts)) == (50, ("nothing",), 0)
    assert (profile["rain"].absent, profile["rain"].actual_types[0][-6:], profile["rain"].missing) == (50, "string", 0)
    assert (profile["g"].absent, profile["g"].actual_types) == (50, ("double",))
    assert sum(profile["day"].counts) == 50


def test_a_wider_type_is_counted_as_the_same_type(reference: Reference, save: Save, generate_rows: Rows) -> None:
    frame = generate_rows(50, 7)
    profile = count_file(
        reference, save(frame.assign(day=frame["day"].astype("float32"), g=frame["g"].astype("category")))
    )
    assert profile.is_equivalent(count_file(reference, save(frame)))


MOMENTS = [dt.datetime(2013, 1, day, 6, 30, tzinfo=dt.UTC) for day in (1, 2, 2)]


@pytest.mark.parametrize(
    ("training", "day"),
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
def test_a_category_of_a_wider_type_has_the_same_values(training: pa.Array, day: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"c": training}), tmp_path / "training.parquet")
    pq.write_table(pa.table({"c": day}), tmp_path / "day.parquet")
    reference = fit_reference(tmp_path / "training.parquet", {"c": "category"}, "late", BinPolicy())
    for path in ("training.parquet", "day.parquet"):
        assert count_file(reference, tmp_path / path)["c"].counts == (2, 1, 0, 0)


def test_a_category_that_changes_from_true_to_1_has_another_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"c": [True, False]}), tmp_path / "training.parquet")
    pq.write_table(pa.table({"c": [1, 0]}), tmp_path / "day.parquet")
    reference = fit_reference(tmp_path / "training.parquet", {"c": "category"}, "late", BinPolicy())
    assert count_file(reference, tmp_path / "day.parquet")["c"].actual_types == ("int64",)


@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal256(70, 1), pa.decimal128(30, 1), pa.uint64(), pa.int8()])
def test_any_type_of_a_number_is_counted(kind: pa.DataType, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), tmp_path / "training.parquet")
    pq.write_table(pa.table({"x": pa.array([1, 2, 2, None]).cast(kind)}), tmp_path / "day.parquet")
    reference = fit_reference(tmp_path / "training.parquet", {"x": "number"}, "late", BinPolicy())
    column = count_file(reference, tmp_path / "day.parquet")["x"]
    assert (column.counts, column.missing, column.maximum) == ((0, 1, 2, 0, 0), 1, 2.0)


def test_a_number_that_changes_to_lists_has_another_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0], "c": [dt.date(2013, 1, 1)]}), tmp_path / "training.parquet")
    pq.write_table(pa.table({"x": [[1.0]], "c": [dt.timedelta(1)]}), tmp_path / "day.parquet")
    reference = fit_reference(tmp_path / "training.parquet", {"x": "number", "c": "category"}, "late", BinPolicy())
    profile = count_file(reference, tmp_path / "day.parquet")
    assert [profile[name].actual_types for name in "xc"] == [("list<element: double>",), ("duration[us]",)]


@pytest.mark.parametrize("names", [["X", "x"], ["x", "X"], ["x", "x"]])
def test_refuses_columns_whose_names_differ_only_in_case(names: list[str], tmp_path: Path) -> None:
    # DuckDB always reads the first of them: here 1000, which would look like drift.
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "training.parquet")
    reference = fit_reference(tmp_path / "training.parquet", {"x": "number"}, "late", BinPolicy())
    columns = [pa.array([1000.0, 1000.0]), pa.array([1.0, 2.0])]
    pq.write_table(pa.Table.from_arrays(columns, names), tmp_path / "day.parquet")
    with pytest.raises(DataError, match="the column 'x' twice"):
        count_file(reference, tmp_path / "day.parquet")


def test_a_column_without_a_value_is_missing_and_not_absent(
    reference: Reference, save: Save, generate_rows: Rows
) -> None:
    profile = count_file(reference, save(generate_rows(9, 8).assign(x=None, rain=np.nan, g=None, late=None)))
    for name in ("x", "rain", "g", "late"):
        assert (profile[name].missing, profile[name].absent, sum(profile[name].counts)) == (9, 0, 0)
    assert profile["rain"].mean is None and profile.joint.missing == 9


@pytest.mark.parametrize("values", [[0.25, np.nan, 0.5, np.nan], [np.nan, np.nan]])
def test_nan_is_missing_although_the_file_statistics_ignore_it(
    values: list[float], reference: Reference, save: Save, generate_rows: Rows
) -> None:
    """Statistics in the metadata of a Parquet file ignore NaN."""
    profile = count_file(reference, save(generate_rows(len(values), 8).assign(x=values)))["x"]
    finite = [value for value in values if np.isfinite(value)]
    assert (profile.missing, sum(profile.counts), profile.n) == (2, len(finite), len(finite))
    assert profile.mean == (np.mean(finite) if finite else None)


def test_counts_a_column_of_infinities(reference: Reference, save: Save, generate_rows: Rows) -> None:
    profile = count_file(reference, save(generate_rows(4, 8).assign(x=[np.inf, -np.inf, np.inf, np.inf])))
    assert (profile["x"].counts[0], profile["x"].counts[-1], profile["x"].n, profile["x"].mean) == (1, 3, 0, None)


def test_counts_rows_without_score_and_label(reference: Reference, save: Save, generate_rows: Rows) -> None:
    profile = count_file(reference, save(generate_rows(9, 8).drop(columns=["score", "late"])))
    assert (profile["score"].absent, profile["late"].absent, profile.joint.absent) == (9, 9, 9)
    only_label = count_file(reference, save(generate_rows(9, 8).drop(columns="score")))
    assert sum(only_label["late"].counts) and only_label.joint.absent == 9


def test_counts_numeric_labels_as_labels(reference: Reference, save: Save, generate_rows: Rows) -> None:
    frame = generate_rows(99, 8)
    profile = count_file(reference, save(frame.assign(late=frame["late"].astype("Float64").astype(float))))
    assert profile["late"] == count_file(reference, save(frame))["late"]


def test_all_columns_are_absent_from_a_file_with_other_columns(reference: Reference, save: Save) -> None:
    profile = count_file(reference, save(pd.DataFrame({"other": [1, 2]})))
    assert {column.absent for column in profile.columns} == {2}


def test_a_number_without_a_value_in_training_accepts_numbers_but_not_text(save: Save) -> None:
    reference = Reference(
        label="y", numbers=(NumberBins(name="x", family="null", edges=(), center=0.0),), categories=()
    )
    assert count_file(reference, save(pd.DataFrame({"x": [1.0, np.nan]})))["x"].counts == (1,)
    assert count_file(reference, save(pd.DataFrame({"x": ["a", "b"]})))["x"].absent == 2


def test_refuses_a_file_that_is_not_parquet(reference: Reference, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read as a Parquet file"):
        count_file(reference, tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("a,b")
    with pytest.raises(DataError, match="cannot be read as a Parquet file"):
        count_file(reference, tmp_path / "text.parquet")
