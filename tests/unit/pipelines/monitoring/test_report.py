"""Test the drift page: what it shows, that it needs no network, and that equal findings give equal bytes."""

import datetime as dt
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.monitoring import report
from pipelines.monitoring.drift import Finding, Policy, WindowResult, decide_each
from pipelines.monitoring.drift.counts import ComparedColumn, Counts
from pipelines.monitoring.profiles.record import ReferenceRecord
from pipelines.monitoring.profiles.reference import CategoryBins, NumberBins, Reference
from pipelines.monitoring.windows import ComparedWindow

pytestmark = pytest.mark.usefixtures("home")
REFERENCE = Reference(
    label="late",
    numbers=(NumberBins(name="wind", family="number", edges=(0.0, 1.0, 2.0), center=1.0),),
    categories=(CategoryBins(name="<carrier>", family="text", values=("AA", "UA"), rest=()),),
)


def build_window(day: int, psi: float, is_missing: bool = False) -> ComparedWindow:
    counts = Counts([[1, 40, 40, 1]], 2), Counts([[1, 40 - day, 40 + day, 1]], 2)
    columns = (
        ComparedColumn("wind", "numeric", counts[0], counts[1], np.asarray([0.0, 1.0, 2.0]), 0.5),
        ComparedColumn(
            "<carrier>", "category", Counts([[50, 30, 0, 0]]), None if is_missing else Counts([[50, 30, 0, 3]])
        ),
        ComparedColumn("late", "label", Counts([[60, 20]]), Counts([[50, 30]])),
    )
    findings = [Finding("wind", "psi", psi, 1e-9, 0.5), Finding("wind", "wasserstein", 0.2, None, 0.5)]
    findings += [Finding("<carrier>", "missing_column", 1.0, 0.0, 0.2, "it is missing")] if is_missing else []
    performance = {"auc": Estimate(0.7, 0.6, 0.8, 0.05, 80)} if day % 2 else {}
    date = dt.date(2013, 4, day)
    return ComparedWindow(date, columns, performance, WindowResult(date.isoformat(), 2_000, tuple(findings)))


def build_history(*windows: ComparedWindow) -> report.DriftHistory:
    policy = Policy()
    decisions = list(decide_each([window.result for window in windows], policy))
    return report.DriftHistory(
        ReferenceRecord(REFERENCE, {}, {}), windows, decisions, policy, {"model": "flights", "version": "2"}
    )


def test_the_page_shows_alarms_first_with_their_bounds_and_escapes_names(tmp_path: Path) -> None:
    page = report.write_report(
        tmp_path / "page", build_history(*(build_window(day, 0.4, is_missing=day > 2) for day in range(1, 9)))
    )
    text = page.read_text()
    assert "flights up to 2013-04-08" in text and "wind: psi 0.4, bound 0.1" in text
    rows = [row for row in re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL) if "<th>" not in row]
    assert [">alarm<" in row for row in rows] == [True, True, True] and "wasserstein" in rows[-1]
    assert "<details>" not in text, "all findings are of columns with an alarm"
    assert "<carrier>" not in text and "&lt;carrier&gt;" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)


def test_the_page_of_a_single_window_without_drift_has_all_pictures(tmp_path: Path) -> None:
    page = report.write_report(tmp_path / "page", build_history(build_window(1, 0.01)))
    text = page.read_text()
    assert "no drift" in text
    shown, folded = text.split("<details>")
    assert "There are none." in shown and "All other findings (2)" in folded and "wasserstein" in folded
    names = sorted(path.name for path in page.parent.iterdir())
    assert names == ["bins.png", "drift.html", "heat.png", "performance.png"]


@pytest.mark.parametrize("has_many_rows", [True, False])
def test_classes_without_enough_rows_are_not_drawn(tmp_path: Path, has_many_rows: bool) -> None:
    estimate = Estimate(0.7, 0.6, 0.8, 0.05, 80)
    classes = {("performance", "estimated_accuracy"): estimate}
    if has_many_rows:
        classes["performance/late", "estimated_recall"] = estimate
    window = replace(build_window(1, 0.01), classes=classes)
    page = report.write_report(tmp_path / "page", build_history(window))
    assert (page.parent / "classes.png").exists() == has_many_rows


def list_points(axis: Any) -> dict[str, list[tuple[float, float]]]:
    """Return the points that each named line of a chart shows; a line without a marker shows no single point."""
    return {
        str(line.get_label()): [tuple(point) for point in line.get_xydata() if np.isfinite(point).all()]
        for line in axis.get_lines()
        if line.get_marker() not in ("", "None", None)
    }


def test_pictures_of_a_single_window_show_its_values() -> None:
    """A line of one point without a marker, and a band of one window, would be invisible."""
    history = build_history(build_window(1, 0.01))
    order = report._order_columns(history)
    means, performance = report._draw_performance(history).axes
    assert list_points(means)["rate of late"] == [(0, pytest.approx(30 / 80))]
    assert list_points(performance)["AUC"] == [(0, 0.7)]
    (interval,) = [bar for bar in performance.collections if isinstance(bar, LineCollection)]
    assert [segment.tolist() for segment in interval.get_segments()] == [[[0, 0.6], [0, 0.8]]]
    assert interval.get_linewidth()[0] > 1
    low, high = performance.get_ylim()
    assert low <= 0.6 and high >= 0.8, "the interval is inside the chart"
    assert [label.get_text() for label in performance.get_xticklabels()] == ["2013-04-01"]
    (image,) = report._draw_heat_map(history, order).axes[0].get_images()
    assert image.get_array().shape == (len(order), 1) and image.get_array().max() > 0
    heights = [bar.get_height() for bar in report._draw_distributions(history, order).axes[0].patches]
    assert sum(heights) == pytest.approx(2), "the shares of the reference and of the window"


def test_a_window_without_labels_has_no_point_of_performance() -> None:
    """The control: nothing is drawn where nothing is known."""
    _, performance = report._draw_performance(build_history(build_window(2, 0.01))).axes
    assert "AUC" not in list_points(performance) and not list(performance.collections)


def test_long_names_and_values_leave_room_for_the_picture(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    name, values = "n" * 200, ("a" * 300, "b" * 300)
    counts = Counts([[50, 30, 0, 0]]), Counts([[50, 30, 0, 3]])
    result = WindowResult("2013-04-01", 2_000, (Finding(name, "psi", 0.4, 1e-9, 0.5),))
    window = ComparedWindow(dt.date(2013, 4, 1), (ComparedColumn(name, "category", *counts),), {}, result)
    texts = CategoryBins(name=name, family="text", values=values, rest=())
    history = build_history(window)
    record = ReferenceRecord(Reference(label="late", numbers=(), categories=(texts,)), {}, {})
    page = report.write_report(tmp_path / "page", replace(history, record=record))
    assert name in page.read_text(), "the table shows the whole name"
    assert not [str(warning.message) for warning in recwarn if "collapsed to zero" in str(warning.message)]


def test_equal_findings_give_equal_bytes(tmp_path: Path) -> None:
    pages = [
        report.write_report(tmp_path / name, build_history(build_window(1, 0.3), build_window(2, 0.4))) for name in "ab"
    ]
    assert pages[0].read_bytes() == pages[1].read_bytes()
    other = report.write_report(tmp_path / "c", build_history(build_window(1, 0.3), build_window(2, 0.5)))
    assert other.read_bytes() != pages[0].read_bytes()
