"""Write the drift report of a day: an HTML page that contains its charts, and the charts as PNG files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.monitoring.drift import Decision, Finding, Measure, Policy, alarms
from pipelines.monitoring.drift.counts import Array, ComparedColumn, Counts
from pipelines.monitoring.profiles.record import ReferenceRecord
from pipelines.monitoring.windows import ComparedWindow, measure_days
from pipelines.pages.drawing import CANDIDATE_COLOR, CHAMPION_COLOR, REFERENCE_COLOR, Axes, plt, save_figure
from pipelines.pages.page import write_page
from pipelines.system.files import replace_folder

PAGE = "drift.html"
"""Name of the page's file, and of its template."""
MAX_COLUMNS, MAX_BINS, MAX_DISTRIBUTIONS = 30, 24, 4
"""Largest numbers of columns in the heat map, of bins in a distribution, and of distributions in the report."""
MAX_CHARACTERS = 32
"""Largest number of characters of a name or a value in a chart; the table of the page shows all characters."""
MAX_CLASSES = 8
"""Largest number of classes whose performance is drawn."""
HEAT_MAX = 2.0
"""The end of the color scale of the heat map: an effect that is this many times its bound."""
_SCORE = "score"


@dataclass(frozen=True)
class DriftHistory:
    """The data of the page: windows, and the decisions on them."""

    record: ReferenceRecord
    windows: Sequence[ComparedWindow]
    """Windows up to the day of the report, oldest first."""
    decisions: Sequence[Decision]
    """Decision on each window, in the same order."""
    policy: Policy
    facts: Mapping[str, str]
    """Values that the top of the page shows, by name."""


def write_report(folder: Path, history: DriftHistory) -> Path:
    """Write the page and its charts to the folder, replacing what was there; return the path of the page."""
    last_window, decision = history.windows[-1], history.decisions[-1]
    order = _order_columns(history)
    with replace_folder(folder) as temporary:
        figures = {
            "heat": _draw_heat_map(history, order),
            "bins": _draw_distributions(history, order),
            "performance": _draw_performance(history),
        }
        if class_columns := _list_class_columns(history.windows):
            figures["classes"] = _draw_classes(history.windows, class_columns)
        paths = [save_figure(temporary / f"{name}.png", figure) for name, figure in figures.items()]
        rows = sorted(
            (_build_table_row(finding, decision, history.policy) for finding in last_window.result.findings),
            key=_get_sort_key,
        )
        write_page(temporary / PAGE, PAGE, paths, decision=decision, rows=rows, facts=history.facts)
    return folder / PAGE


def _build_table_row(finding: Finding, decision: Decision, policy: Policy) -> dict[str, Any]:
    names = ("column", "measure", "effect", "p_value", "weight", "note")
    bound_ratio, has_alarm = alarms.compute_bound_ratio(finding, policy), finding.column in decision.drifted_columns
    computed_values = {
        "bound": alarms.get_bound(finding, policy),
        "bound_ratio": bound_ratio,
        "alarm": has_alarm,
        "is_large": has_alarm or bound_ratio >= 1,
    }
    return {name: getattr(finding, name) for name in names} | computed_values


def _get_sort_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return not row["alarm"], -row["bound_ratio"], row["column"], row["measure"]


def _order_columns(history: DriftHistory) -> list[str]:
    """Order the columns: first those that drifted, then by effect in the last window, then by effect in any window."""
    names = dict.fromkeys(finding.column for window in history.windows for finding in window.result.findings)
    last_effects, all_effects = (
        _compute_effects(history.windows[-1:], history.policy),
        _compute_effects(history.windows, history.policy),
    )
    drifted_columns = history.decisions[-1].drifted_columns
    rank = {name: position for position, name in enumerate(drifted_columns)}
    return sorted(
        names,
        key=lambda name: (
            rank.get(name, len(drifted_columns)),
            -max(last_effects.get(name, [0])),
            -max(all_effects.get(name, [0])),
            name,
        ),
    )


def _compute_effects(windows: Iterable[ComparedWindow], policy: Policy) -> dict[str, list[float]]:
    """Map each column to its largest effect in each window, as a multiple of the bound.

    The list of a column ends at the last window that has the column.
    """
    effects: dict[str, list[float]] = {}
    for position, window in enumerate(windows):
        for finding in window.result.findings:
            series = effects.setdefault(finding.column, [])
            series += [0.0] * (position + 1 - len(series))
            series[position] = max(series[position], alarms.compute_bound_ratio(finding, policy))
    return effects


def _draw_heat_map(history: DriftHistory, order: Sequence[str]) -> Any:
    names, effects = list(order[:MAX_COLUMNS]), _compute_effects(history.windows, history.policy)
    window_count = len(history.windows)
    cells = np.asarray([(effects[name] + [0.0] * window_count)[:window_count] for name in names])
    figure, axis = plt.subplots(figsize=(12, 1.6 + 0.26 * len(names)), layout="constrained")
    image = axis.imshow(cells, aspect="auto", cmap="YlOrRd", vmin=0, vmax=HEAT_MAX, interpolation="nearest")
    for position, (window, decision) in enumerate(zip(history.windows, history.decisions, strict=True)):
        _draw_marks(axis, position, names, alarms.find_breaches(window.result, history.policy), "_")
        _draw_marks(axis, position, names, decision.drifted_columns, "s")
    axis.set_yticks(range(len(names)), [_shorten(name) for name in names], fontsize=8)
    _label_days(axis, [window.day for window in history.windows])
    axis.set_title(
        "Color: largest effect in the window that ends on the day, divided by its bound. "
        "Dash: significantly over the bound. Square: alarm",
        loc="left",
        fontsize=10,
    )
    figure.colorbar(image, ax=axis, shrink=0.8, label="1: at the bound", extend="max")
    return figure


def _draw_marks(axis: Axes, position: int, names: Sequence[str], columns: Iterable[str], marker: str) -> None:
    rows = [names.index(name) for name in columns if name in names]
    axis.plot([position] * len(rows), rows, marker, color="black", markersize=3)


def _label_days(axis: Axes, days: Sequence[dt.date]) -> None:
    step = max(1, -(-len(days) // 12))
    axis.set_xticks(range(0, len(days), step), [str(day) for day in days[::step]], rotation=30, ha="right", fontsize=8)


def _draw_distributions(history: DriftHistory, order: Sequence[str]) -> Any:
    columns = {column.name: column for column in history.windows[-1].columns if column.reference and column.window}
    drawn_columns = [columns[name] for name in order if name in columns][:MAX_DISTRIBUTIONS]
    figure, axes = plt.subplots(
        len(drawn_columns), 1, figsize=(12, 2.7 * len(drawn_columns)), layout="constrained", squeeze=False
    )
    for axis, column in zip(axes[:, 0], drawn_columns, strict=True):
        _draw_bars(axis, column, _list_bin_labels(history.record, column))
    axes[0, 0].legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    return figure


def _draw_bars(axis: Axes, column: ComparedColumn, labels: Sequence[str]) -> None:
    """Draw, for each bin, its share of the rows of the reference and of the window.

    Bins that are empty in both are left out. If more than `MAX_BINS` bins are left, only the largest are drawn.
    """
    reference, window = _compute_shares(column.reference), _compute_shares(column.window)
    shown_bins = np.flatnonzero((reference > 0) | (window > 0))
    if len(shown_bins) > MAX_BINS:
        shown_bins = np.sort(shown_bins[np.argsort(-(reference + window)[shown_bins], kind="stable")[:MAX_BINS]])
    positions = np.arange(len(shown_bins))
    axis.bar(positions - 0.2, reference[shown_bins], 0.4, color=CHAMPION_COLOR, label="reference")
    axis.bar(positions + 0.2, window[shown_bins], 0.4, color=CANDIDATE_COLOR, label="this window")
    axis.set_xticks(
        positions, [_shorten(labels[int(index)]) for index in shown_bins], rotation=30, ha="right", fontsize=7
    )
    axis.set_title(_shorten(column.name), loc="left", fontsize=10)
    axis.set_ylabel("share")


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


def _compute_shares(counts: Counts | None) -> Array:
    """Compute the share of rows in each bin, and after the bins, the share of rows without a value."""
    assert counts is not None
    missing_rows = counts.presence[:, 1].sum()
    rows = np.append(counts.total, missing_rows)
    return np.asarray(rows / max(rows.sum(), 1.0))


def _list_bin_labels(record: ReferenceRecord, column: ComparedColumn) -> list[str]:
    """List the labels of the bins of a column, with one more for rows without a value."""
    if column.edges is not None:
        inner_bins = [f"{low:.4g} to {high:.4g}" for low, high in zip(column.edges, column.edges[1:], strict=False)]
        return [f"< {column.edges[0]:.4g}", *inner_bins, f"> {column.edges[-1]:.4g}", "none"]
    for category in record.reference.categories:
        if category.name == column.name:
            return [*category.values, "others", "unseen", "none"]
    return ["no", "yes", "none"]  # the bins of a label


def _draw_performance(history: DriftHistory) -> Any:
    """Draw two charts: the mean score and the mean label of each window, and the performance of each window."""
    days = [window.day for window in history.windows]
    statistic = "mean" if history.record.reference.target else "rate"
    figure, (mean_axis, performance_axis) = plt.subplots(2, 1, figsize=(12, 6), layout="constrained", sharex=True)
    for name, color in ((_SCORE, CANDIDATE_COLOR), (history.record.reference.label, CHAMPION_COLOR)):
        means = [_compute_mean(window, name, history.record) for window in history.windows]
        mean_axis.plot(
            range(len(days)),
            means,
            ".-",  # with points, since a line of a single window would be invisible
            color=color,
            label="mean score" if name == _SCORE else f"{statistic} of {name}",
        )
    mean_axis.legend(frameon=False, ncols=2)
    mean_axis.set_title("Scores and labels of each window", loc="left", fontsize=10)
    shown_measures: tuple[tuple[Measure, str, str], ...] = (
        ("auc", CHAMPION_COLOR, "AUC"),
        ("estimated_auc", CANDIDATE_COLOR, "AUC estimated from scores"),
        ("mae", CHAMPION_COLOR, "mean absolute error"),
        ("estimated_mae", CANDIDATE_COLOR, "mean absolute error, estimated without labels"),
    )
    for measure, color, label in shown_measures:
        _draw_band(performance_axis, [window.performance.get(measure) for window in history.windows], color, label)
    holdout_metrics = measure_days(history.record.holdout, history.policy)
    metric_names: dict[Measure, str] = {"auc": "AUC", "mae": "mean absolute error"}
    for measure, name in metric_names.items():
        if holdout := holdout_metrics.get(measure):
            style: dict[str, Any] = {"color": REFERENCE_COLOR, "linewidth": 1}
            performance_axis.axhspan(holdout.low, holdout.high, alpha=0.18, **{**style, "linewidth": 0})
            performance_axis.axhline(holdout.value, linestyle="--", label=f"{name} on the holdout", **style)
    errors = [window.performance["mae"].value for window in history.windows if "mae" in window.performance]
    if errors:  # the interval of a few days may be so wide that it would hide all changes
        performance_axis.set_ylim(0, 2 * max(errors))
    if performance_axis.get_legend_handles_labels()[0]:  # a window without labels and estimates has no performance
        performance_axis.legend(frameon=False, ncols=3)
    performance_axis.set_title("Performance, with its intervals", loc="left", fontsize=10)
    _label_days(performance_axis, days)
    return figure


def _list_class_columns(windows: Sequence[ComparedWindow]) -> list[str]:
    """List the columns `performance/CLASS` of the classes that have enough rows in any window."""
    return list(dict.fromkeys(column for window in windows for column, _ in window.classes if "/" in column))


def _draw_classes(windows: Sequence[ComparedWindow], columns: Sequence[str]) -> Any:
    """Draw two recalls of each class with their intervals: one measured from labels, one estimated without labels."""
    shown_columns = columns[:MAX_CLASSES]
    figure, axes = plt.subplots(
        len(shown_columns),
        1,
        figsize=(12, 1.2 + 1.9 * len(shown_columns)),
        layout="constrained",
        sharex=True,
        squeeze=False,
    )
    shown_measures: tuple[tuple[Measure, str, str], ...] = (
        ("recall", CHAMPION_COLOR, "recall"),
        ("estimated_recall", CANDIDATE_COLOR, "recall, estimated without labels"),
    )
    for axis, column in zip(axes[:, 0], shown_columns, strict=True):
        for measure, color, label in shown_measures:
            _draw_band(axis, [window.classes.get((column, measure)) for window in windows], color, label)
        axis.set_title(_shorten(column.partition("/")[2]), loc="left", fontsize=10)
    axes[0, 0].legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    _label_days(axes[-1, 0], [window.day for window in windows])
    return figure


def _compute_mean(window: ComparedWindow, name: str, record: ReferenceRecord) -> float:
    """Compute the mean of the score or of the label in a window; NaN if no row of the window has a value.

    A number counts as the middle of its bin, so the mean of numbers is approximate.
    """
    counts = next((column.window for column in window.columns if column.name == name and column.window), None)
    if counts is None or not counts.total.sum():
        return float("nan")
    if name != _SCORE and not record.reference.target:
        return float(counts.total[1] / counts.total.sum())
    edges = np.asarray(record.reference.score.edges)
    middles = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
    return float(counts.total @ middles / counts.total.sum())


def _draw_band(axis: Axes, estimates: Sequence[Estimate | None], color: str, label: str) -> None:
    """Draw the estimates of the windows with their intervals; leave out a window without an estimate."""
    points = [(position, estimate) for position, estimate in enumerate(estimates) if estimate]
    if points:
        positions = [position for position, _ in points]
        low, high = [estimate.low for _, estimate in points], [estimate.high for _, estimate in points]
        axis.fill_between(positions, low, high, color=color, alpha=0.15)
        if len(points) == 1:  # the band of a single window would be invisible
            axis.vlines(positions, low, high, color=color, linewidth=4, alpha=0.3)
        axis.plot(positions, [estimate.value for _, estimate in points], ".-", color=color, label=label)
