"""Test the tables of an evaluation against pandas and scikit-learn: residuals, weeks, confusion and reliability."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix

from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.measurement import Sample, measure
from pipelines.evaluation.multiclass import tabulate_confusion, tabulate_top_class
from pipelines.evaluation.regression import tabulate_quantiles, tabulate_residuals, tabulate_weeks
from pipelines.evaluation.report import multiclass_figures
from pipelines.evaluation.report.multiclass_figures import draw_class_reliability
from pipelines.evaluation.tables import Table, write_tables
from pipelines.pages.drawing import plt

RANDOM = np.random.default_rng(17)
ROWS = 603
"""Not a multiple of ten: the first three bins have one row more."""
SCORE = RANDOM.normal(10.0, 8.0, size=ROWS)
LABEL = SCORE + RANDOM.standard_t(3, size=ROWS) * (1.0 + np.abs(SCORE) / 8.0) + 2.0
CLASSES = ("early", "late", "on time")
CLASS_SCORE = RANDOM.dirichlet((2.0, 1.0, 3.0), size=ROWS)
CLASS_LABEL = np.array([RANDOM.choice(3, p=row) for row in CLASS_SCORE])


def group_by_tenth(**columns: Any) -> Any:
    """Group rows by tenths of the column `predicted`, in the way of pandas: `qcut` of the ranks."""
    frame = pd.DataFrame(columns)
    position = frame["predicted"].rank(method="first") - 1
    larger_bins = len(frame) % 10 * (len(frame) // 10 + 1)
    tenth = np.where(
        position < larger_bins,
        position // (len(frame) // 10 + 1),
        len(frame) % 10 + (position - larger_bins) // (len(frame) // 10),
    )
    return frame.groupby(tenth)


def check_bins(table: Table, predicted: Any, observed: Any) -> None:
    """Check the columns of a reliability."""
    expected = group_by_tenth(predicted=predicted, observed=observed)
    assert table["rows"] == expected.size().tolist()
    for name in ("predicted", "observed"):
        assert table[name] == pytest.approx(expected[name].mean().tolist()), name


def test_residuals_are_the_quantiles_of_observed_minus_predicted_in_each_tenth() -> None:
    table = tabulate_residuals(LABEL, SCORE)
    assert list(table) == ["predicted", "observed", "rows", "low", "middle", "high"]
    assert table["rows"] == [61, 61, 61, 60, 60, 60, 60, 60, 60, 60]
    check_bins(table, SCORE, LABEL)
    residuals = group_by_tenth(predicted=SCORE, residual=LABEL - SCORE)["residual"]
    for name, quantile in (("low", 0.1), ("middle", 0.5), ("high", 0.9)):
        assert table[name] == pytest.approx(residuals.quantile(quantile).tolist()), name
    # Negative control: the sign and the order of the bins matter.
    turned = tabulate_residuals(SCORE, LABEL)
    assert turned["middle"] != pytest.approx(table["middle"])


def test_a_constant_error_is_the_residual_of_each_tenth_and_week() -> None:
    table = tabulate_residuals(SCORE + 3.0, SCORE)
    assert [table[name] for name in ("low", "middle", "high")] == [pytest.approx([3.0] * 10)] * 3
    weeks = tabulate_weeks(SCORE + 3.0, SCORE, pd.Series(pd.Timestamp("2013-03-01"), index=range(ROWS)))
    assert weeks == {"week": ["2013-03-01"], "mae": [pytest.approx(3.0)], "bias": [pytest.approx(-3.0)], "rows": [603]}


def test_residuals_of_equal_scores_and_of_few_rows() -> None:
    table = tabulate_residuals(np.array([1.0, 5.0, 3.0]), np.array([2.0, 2.0, 2.0]))
    assert (table["rows"], table["middle"]) == ([1, 1, 1], [-1.0, 3.0, 1.0])


@pytest.mark.parametrize("as_type", [pd.Timestamp, lambda day: day], ids=["timestamps", "dates"])
def test_weeks_are_counted_from_the_first_day_of_the_rows(as_type: Any) -> None:
    """The first day is a Wednesday, a week has no rows, and the rows are in no order."""
    offsets = RANDOM.choice([*range(13), *range(21, 30)], size=ROWS)
    offsets[5] = 0
    days = [dt.date(2013, 2, 27) + dt.timedelta(int(offset)) for offset in offsets]
    table = tabulate_weeks(LABEL, SCORE, pd.Series([as_type(day) for day in days], index=range(1_000, 1_000 + ROWS)))
    assert table["week"] == ["2013-02-27", "2013-03-06", "2013-03-20", "2013-03-27"]
    for number, week in enumerate((0, 1, 3, 4)):
        errors = [SCORE[n] - LABEL[n] for n in range(ROWS) if offsets[n] // 7 == week]
        assert table["rows"][number] == len(errors)
        assert table["mae"][number] == pytest.approx(sum(map(abs, errors)) / len(errors))
        assert table["bias"][number] == pytest.approx(sum(errors) / len(errors))
    calendar_weeks = pd.Series(pd.to_datetime(days)).dt.to_period("W-SUN").nunique()
    assert calendar_weeks != len(table["week"]), "the weeks of the calendar would give another table"


def test_quantiles_have_the_share_of_labels_at_or_below_them() -> None:
    table = tabulate_quantiles(np.array([1.0, 2.0, 3.0, 4.0]), {"0.1": np.zeros(4), "0.5": np.array([1.0, 1, 4, 4])})
    assert table == {"quantile": [0.1, 0.5], "observed": [0.0, 0.75], "rows": [4, 4]}


def test_the_confusion_counts_labels_by_predicted_class() -> None:
    table = tabulate_confusion(CLASS_LABEL, CLASS_SCORE, CLASSES)
    expected = confusion_matrix(CLASS_LABEL, CLASS_SCORE.argmax(axis=1))
    frame = pd.DataFrame(table).pivot(index="label", columns="predicted", values="rows").loc[list(CLASSES), CLASSES]
    assert np.array_equal(frame.to_numpy(), expected)
    assert not np.array_equal(expected, expected.T), "a transposed matrix would be another one"
    absent = tabulate_confusion(np.array([0, 0]), np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]]), CLASSES)
    assert absent["rows"] == [1, 1, 0, 0, 0, 0, 0, 0, 0], "a class without rows has its cells"


def test_the_reliability_of_the_predicted_class() -> None:
    is_right = CLASS_SCORE.argmax(axis=1) == CLASS_LABEL
    check_bins(tabulate_top_class(CLASS_LABEL, CLASS_SCORE), CLASS_SCORE.max(axis=1), is_right)


def test_the_reliability_of_each_class_is_drawn_from_the_rows_of_all_classes() -> None:
    """Candidate and champion have a line each. The classes are in the order of their rows."""
    champion = RANDOM.dirichlet((1.0, 1.0, 1.0), size=ROWS)
    frame = pd.DataFrame({"date": pd.Timestamp("2013-03-01"), "airport": "JFK"}, index=range(ROWS))
    shares = np.full(3, 1 / 3)
    holdout = Holdout(CLASS_LABEL, CLASS_SCORE, champion, frame, shares, shares, task="multiclass", classes=CLASSES)
    figure = draw_class_reliability(holdout)
    numbers = np.argsort(-np.bincount(CLASS_LABEL))
    axes = [axis for axis in figure.axes if axis.get_title()]
    assert len(axes) == 3 <= multiclass_figures.MAX_CURVES
    for axis, number in zip(axes, numbers, strict=True):
        assert axis.get_title() == f"{CLASSES[number]}: {(number == CLASS_LABEL).sum()} rows"
        lines = {line.get_label(): line for line in axis.get_lines()}
        for name, score in (("champion", champion), ("candidate", CLASS_SCORE)):
            expected = group_by_tenth(predicted=score[:, number], observed=number == CLASS_LABEL).mean()
            assert lines[name].get_xdata() == pytest.approx(expected["predicted"].tolist())
            assert lines[name].get_ydata() == pytest.approx(expected["observed"].tolist())
    plt.close(figure)


def test_the_files_of_the_tables_have_their_numbers(tmp_path: Path) -> None:
    """`evaluate` writes what `measure` returns: residuals.csv and weeks.csv, confusion.csv and calibration.csv."""
    rows = pd.DataFrame({"date": pd.Timestamp("2013-03-01") + pd.to_timedelta(np.arange(ROWS) // 40, unit="D")})
    regression = measure("regression", Sample(LABEL, SCORE, 12.0, rows, ()))
    write_tables(tmp_path / "regression", regression.tables)
    residuals = pd.read_csv(tmp_path / "regression/residuals.csv")
    expected = group_by_tenth(predicted=SCORE, residual=LABEL - SCORE)["residual"].quantile(0.9)
    assert residuals["high"].tolist() == pytest.approx(expected.tolist())
    weeks = pd.read_csv(tmp_path / "regression/weeks.csv")
    assert (weeks["mae"] * weeks["rows"]).sum() / ROWS == pytest.approx(regression.metrics["mae"])
    assert (weeks["bias"] * weeks["rows"]).sum() / ROWS == pytest.approx(regression.metrics["bias"])
    shares = np.full(3, 1 / 3)
    multiclass = measure("multiclass", Sample(CLASS_LABEL, CLASS_SCORE, shares, rows, CLASSES))
    write_tables(tmp_path / "multiclass", multiclass.tables)
    confusion = pd.read_csv(tmp_path / "multiclass/confusion.csv")
    is_right = confusion["label"] == confusion["predicted"]
    assert confusion[is_right]["rows"].sum() / ROWS == pytest.approx(multiclass.metrics["accuracy"])
    calibration = pd.read_csv(tmp_path / "multiclass/calibration.csv")
    assert (calibration["observed"] * calibration["rows"]).sum() / ROWS == pytest.approx(multiclass.metrics["accuracy"])
