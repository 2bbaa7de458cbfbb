"""Report which of two versions is better. The report is valid at any time of an A/B test, and may be repeated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.ab_test.outcome_sums import Metric, OutcomeSums
from pipelines.evaluation.statistics.sequential import Difference, estimate_difference
from pipelines.pages.drawing import CANDIDATE_COLOR, REFERENCE_COLOR, plt, save_figure

MIN_DAYS, MIN_ROWS = 14, 100
"""Smallest number of days of a test, and of rows of each version, with which a test can be decided. The intervals are
asymptotic, and fewer days do not show how days differ."""


@dataclass(frozen=True)
class Report:
    """State of an A/B test."""

    model: str
    """Registered model."""
    versions: tuple[str, str]
    """Numbers of the two versions."""
    metric: str
    """Name of the metric."""
    is_greater_better: bool
    """Whether a greater value of the metric is better."""
    alpha: float
    """Probability of a wrong decision, no matter how many reports are read."""
    planned_rows: int
    """Number of rows, of both versions together, for which the width of the intervals is optimized. In a paired test, a
    row that both versions scored counts once."""
    sums: OutcomeSums
    """Sums of the metric by day: for each version or, in a paired test, of the differences."""
    history: Sequence[Difference | None]
    """The difference after each day; None for days before both versions have rows."""

    @property
    def difference(self) -> Difference:
        """The second version's mean minus the first version's, over all days."""
        last_difference = self.history[-1]
        assert last_difference is not None
        return last_difference

    @property
    def outcome(self) -> str:
        """better, worse or undecided: whether the second version is better than the first."""
        low, high = self.difference.low, self.difference.high
        if self.missing_data or low <= 0 <= high:
            return "undecided"
        return "better" if (low > 0) == self.is_greater_better else "worse"

    @property
    def missing_data(self) -> str:
        """What is missing for a decision, in words; empty if there are enough data."""
        if len(self.sums.days) < MIN_DAYS:
            return f"at least {MIN_DAYS} days are needed, and there are {len(self.sums.days)}"
        if min(sample.count for sample in self.sums.samples) < MIN_ROWS:
            rows = "rows that both versions scored" if self.sums.is_paired else "rows of each version"
            return f"at least {MIN_ROWS} {rows} are needed"
        return ""


def build_report(
    model: str,
    versions: tuple[str, str],
    metric_name: str,
    metric: Metric,
    sums: OutcomeSums,
    alpha: float,
    planned_rows: int,
) -> Report:
    """Estimate the difference of two versions after each day.

    Args:
        model: registered model.
        versions: numbers of the two versions.
        metric_name: name of the metric.
        metric: the metric of the sums.
        sums: sums by day, from `sum_outcomes`.
        alpha: probability that the true difference is outside the interval in any report of the test.
        planned_rows: number of rows, of both versions together, for which the width of the interval is optimized.
    """
    samples_by_day = ([sample.select_first(days) for sample in sums.samples] for days in range(1, len(sums.days) + 1))
    history = [
        estimate_difference(samples, alpha, planned_rows) if all(sample.count for sample in samples) else None
        for samples in samples_by_day
    ]
    return Report(model, versions, metric_name, metric.is_greater_better, alpha, planned_rows, sums, history)


def format_lines(report: Report) -> list[str]:
    """Format the report for a terminal."""
    first, second = report.versions
    days, difference = report.sums.days, report.difference
    interval = f"between {difference.low:+.5f} and {difference.high:+.5f} at {1 - report.alpha:.0%}"
    comparison = "the same rows, in pairs" if report.sums.is_paired else "different rows"
    counts = "{:,} and {:,} rows".format(*report.sums.row_counts)
    lines = [
        f"{report.model}, version {second} against {first}, {days[0]} to {days[-1]}: {counts} ({comparison}).",
        f"{report.metric}: difference {difference.value:+.5f}, {interval}, valid however often you look.",
        _describe_outcome(report),
    ]
    return [*lines, _describe_progress(report)] if report.outcome == "undecided" else lines


def draw_chart(path: Path, report: Report) -> Path:
    """Draw the difference after each day, with its interval, to a PNG file; return the path."""
    differences = {day: item for day, item in zip(report.sums.days, report.history, strict=True) if item}
    lows = [item.low for item in differences.values()]
    highs = [item.high for item in differences.values()]
    values = [item.value for item in differences.values()]
    figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
    axis.fill_between(list(differences), lows, highs, color=CANDIDATE_COLOR, alpha=0.18)
    axis.plot(list(differences), values, color=CANDIDATE_COLOR, marker="o", markersize=3)
    axis.axhline(0, color=REFERENCE_COLOR, linewidth=1)
    # The intervals of the first days are very wide, so they are cut off: otherwise, later differences would look flat.
    limit = 3 * max(abs(value) for value in (report.difference.low, report.difference.high))
    axis.set_ylim(-limit, limit)
    first, second = report.versions
    axis.set_title(
        f"{report.model}: {report.metric} of version {second} minus version {first}", loc="left", fontsize=11
    )
    axis.set_ylabel(f"difference ({'above' if report.is_greater_better else 'below'} 0: version {second} is better)")
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="x", rotation=30)
    return save_figure(path, figure, dpi=120)


def _describe_outcome(report: Report) -> str:
    if report.outcome != "undecided":
        return f"Version {report.versions[1]} is {report.outcome}."
    return f"Undecided: {report.missing_data or 'the interval contains 0'}."


def _describe_progress(report: Report) -> str:
    rows, days = sum(sample.count for sample in report.sums.samples), len(report.sums.days)
    line = f"{rows:,} of {report.planned_rows:,} planned rows"
    if rows >= report.planned_rows:
        return f"{line}."
    missing_days = math.ceil((report.planned_rows - rows) * days / rows)
    return f"{line}: about {missing_days:,} days more, at {rows / days:,.0f} rows a day."
