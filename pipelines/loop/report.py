"""Write the report of the loop study: an HTML page that contains its chart, and the chart as a PNG file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from pipelines.backtest.study import NEVER_STRATEGY
from pipelines.costs.charges import format_usd
from pipelines.loop.study import DRIFT_STRATEGY, MONTHLY_STRATEGY, Strategy, Study, TimelineEvent, compare_strategies
from pipelines.pages.drawing import CANDIDATE_COLOR, CHAMPION_COLOR, REFERENCE_COLOR, Axes, plt, save_figure
from pipelines.pages.page import write_page

PAGE = "loop.html"
"""Name of the page's file, and of its template."""
STYLES = {
    NEVER_STRATEGY: {"color": REFERENCE_COLOR, "linestyle": "--", "linewidth": 1.6},
    MONTHLY_STRATEGY: {"color": CHAMPION_COLOR, "linestyle": "-.", "linewidth": 1.6},
    DRIFT_STRATEGY: {"color": CANDIDATE_COLOR, "linewidth": 2.2},
}
"""Maps the name of each strategy to the style of its line."""
COLORS = {
    "promoted": "#14632b",
    "rolled_back": "#9b1c26",
    "started": CANDIDATE_COLOR,
    "not_passed": CHAMPION_COLOR,
    "failed": "#9b1c26",
    "held_back": REFERENCE_COLOR,
    "reset": CANDIDATE_COLOR,
}
"""Maps each kind of event in the chart to its color; the rows are in this order, from top to bottom. Events of other
kinds, passed and alias_moved, are only in the page's table."""


def write_report(folder: Path, study: Study) -> Path:
    """Write the page and its chart to the folder; return the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [save_figure(folder / "weeks.png", _draw_weeks(study))]
    rows = [_build_strategy_row(strategy, study) for strategy in study.strategies]
    strategy_names = [strategy.name for strategy in study.strategies]
    values = {
        "rows": rows,
        "comparisons": summarize_gain(study),
        "names": strategy_names,
        "events": list(_build_event_rows(study.timeline)),
    }
    return write_page(folder / PAGE, PAGE, pictures, study=study, **values)


def summarize_study(study: Study) -> list[str]:
    """Format the study as lines for a terminal."""
    rows = (_build_strategy_row(strategy, study) for strategy in study.strategies)
    lines = [
        f"{row['name']:16} mean {study.metric.title} {row['mean']:.4f}, {row['trainings']} trainings, {row['cost']}"
        for row in rows
    ]
    return [*lines, *summarize_gain(study)]


def summarize_gain(study: Study) -> list[str]:
    """Compare the strategy of the loop, "on drift", with each other strategy, in one line for each."""
    lines = []
    for other_strategy in (NEVER_STRATEGY, MONTHLY_STRATEGY):
        gain = compare_strategies(study.weeks, DRIFT_STRATEGY, other_strategy, study.metric)
        if gain:
            difference = f"{gain.mean:+.4f} {study.metric.title} a week on average, {gain.low:+.4f} to {gain.high:+.4f}"
            lines.append(f"{DRIFT_STRATEGY} against {other_strategy}: {gain.direction} ({difference})")
    return lines or [f"{DRIFT_STRATEGY}: one week is not enough for a comparison"]


def _build_strategy_row(strategy: Strategy, study: Study) -> dict[str, Any]:
    values = [week.values[strategy.name] for week in study.weeks]
    worst_index = study.metric.find_worst_index(values)
    return {
        "name": strategy.name,
        "rule": strategy.rule,
        "trainings": len(strategy.runs),
        "versions": ", ".join(f"version {period.version} from {period.since}" for period in strategy.serving_versions),
        "cost": "cost unknown" if strategy.cost_usd is None else format_usd(strategy.cost_usd),
        "mean": fmean(values),
        "worst": values[worst_index],
        "worst_week": study.weeks[worst_index].days.first,
    }


def _build_event_rows(timeline: Sequence[TimelineEvent]) -> Iterator[dict[str, Any]]:
    """Yield a table row for each event. Consecutive events of trainings that the same guard held back share a row."""
    for (kind, _), similar_events in groupby(timeline, lambda event: (event.kind, _get_guard_name(event))):
        events = list(similar_events)
        for group in [events] if kind == "held_back" else [[event] for event in events]:
            days = f"{group[0].day} to {group[-1].day}, {len(group)} times" if group[1:] else group[0].day
            yield {"days": days, "kind": kind.replace("_", " "), "reason": group[-1].text}


def _get_guard_name(event: TimelineEvent) -> str:
    return event.text.partition(":")[0] if event.kind == "held_back" else ""


def _draw_weeks(study: Study) -> Any:
    figure, (metric_axis, event_axis) = plt.subplots(
        2, 1, figsize=(13, 6.4), layout="constrained", sharex=True, height_ratios=(4, 1.2)
    )
    for strategy in study.strategies:
        middle_days = [week.days.first + dt.timedelta(len(week.days) // 2) for week in study.weeks]
        values = [week.values[strategy.name] for week in study.weeks]
        metric_axis.plot(middle_days, values, label=f"{strategy.name}: {fmean(values):.4f}", **STYLES[strategy.name])
    for version in study.strategies[-1].serving_versions[1:]:
        metric_axis.axvline(version.since, color=CANDIDATE_COLOR, linewidth=0.8, alpha=0.5)
    metric_axis.set_title(
        f"{study.model}: {study.metric.title} of each week, by the version that served", loc="left", fontsize=11
    )
    metric_axis.legend(frameon=False, ncols=3, loc="lower left")
    metric_axis.grid(axis="y", color="#eeeeee")
    _draw_timeline(event_axis, study.timeline)
    return figure


def _draw_timeline(axis: Axes, timeline: Sequence[TimelineEvent]) -> None:
    """Draw each event whose kind is in `COLORS` as a vertical line at its day, in one row for each kind."""
    for row, (kind, color) in enumerate(reversed(COLORS.items())):
        days: list[Any] = [event.day for event in timeline if event.kind == kind]
        axis.plot(days, [row] * len(days), "|", color=color, markersize=14, markeredgewidth=1.6)
    axis.set_yticks(range(len(COLORS)), [kind.replace("_", " ") for kind in reversed(COLORS)], fontsize=8)
    axis.set_ylim(-0.6, len(COLORS) - 0.4)
