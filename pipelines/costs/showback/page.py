"""Write the page of the costs by payer: an HTML file with charts. Equal ledgers give byte-identical files."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.costs.daily.days import DailyCosts
from pipelines.costs.report import UNALLOCATED
from pipelines.costs.showback.reserved import NO_COMMITMENT
from pipelines.costs.showback.summary import Showback
from pipelines.errors import SpecError
from pipelines.escaping import escape
from pipelines.pages.drawing import Axes, plt, save_figure
from pipelines.pages.page import write_page

TEMPLATE = "showback.html"
MAX_BARS = 12
"""Largest number of groups in the chart. The table has all groups."""
DAYS = 56
"""Number of days in the chart of daily costs."""
MAX_LABEL_CHARS = 40
PARTS = {
    "spot_usd": ("spot", "#1f5fa8"),
    "on_demand_jobs_usd": ("on demand", "#e08a1e"),
    "endpoints_usd": ("endpoints", "#7a5ca8"),
}
"""Each part of the costs, with its label and color in the chart."""
ANOMALY_COLOR, IDLE_COLOR = "#b8434e", "#1c2733"


def write_showback_page(
    path: Path,
    title: str,
    showback: Showback,
    daily_costs: Mapping[str, DailyCosts],
    judged_days: str = "the last four weeks",
) -> None:
    """Write the page, replacing an existing file.

    Args:
        path: file to write.
        title: what the page covers, such as a month.
        showback: the summary of the costs by payer.
        daily_costs: each project with its daily costs, for the second chart.
        judged_days: the days in which anomalies were looked for, in words.

    Raises:
        SpecError: the file cannot be written. A retry cannot help.
    """
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        pictures = [_draw_groups(Path(folder) / "groups.png", showback)]
        pictures.append(_draw_days(Path(folder) / "days.png", showback, daily_costs))
        try:
            values = {"title": title, "showback": showback, "judged_days": judged_days}
            write_page(path, TEMPLATE, pictures, **values, unallocated=UNALLOCATED, no_commitment=NO_COMMITMENT)
        except OSError as error:
            raise SpecError(f"{path}: {error.strerror}.", "Give a file that can be written.") from None


def _draw_groups(path: Path, showback: Showback) -> Path:
    """Draw a bar with its parts for each of the most expensive groups; a dark line shows the cost of idle time."""
    groups = list(showback.groups[:MAX_BARS])
    labels = [_shorten(" / ".join(escape(group[key] or "-") for key in showback.keys)) for group in groups]
    positions = range(len(groups))
    figure, axis = plt.subplots(figsize=(9.5, 1.6 + 0.42 * max(len(groups), 2)), layout="constrained")
    lefts = [0.0] * len(groups)
    for name, (label, color) in PARTS.items():
        widths = [group[name] for group in groups]
        axis.barh(positions, widths, left=lefts, height=0.62, color=color, label=label)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    idle_costs = [group["idle_usd"] for group in groups]
    axis.barh(positions, idle_costs, height=0.16, color=IDLE_COLOR, label="idle (known part)")
    axis.set_yticks(positions, labels)
    axis.invert_yaxis()
    other_count = len(showback.groups) - len(groups)
    axis.set_xlabel("USD" + (f" ({other_count} smaller groups are in the table)" if other_count else ""))
    _format_axis(axis, "x")
    return save_figure(path, figure, dpi=120)


def _draw_days(path: Path, showback: Showback, daily_costs: Mapping[str, DailyCosts]) -> Path:
    """Draw the costs of the last days, all projects together, and mark the days on which a project had an anomaly."""
    totals: dict[dt.date, float] = {}
    for costs in daily_costs.values():
        for day, usd in zip(costs.days[-DAYS:], costs.usd[-DAYS:], strict=True):
            totals[day] = totals.get(day, 0.0) + usd
    anomalies = [anomaly for entries in showback.anomalies.values() for anomaly in entries]
    anomaly_days = {dt.date.fromisoformat(anomaly.day) for anomaly in anomalies}
    days = sorted(totals)[-DAYS:]
    figure, axis = plt.subplots(figsize=(9.5, 3.2), layout="constrained")
    for is_anomaly, color, label in (
        (False, "#1f5fa8", "cost of a day"),
        (True, ANOMALY_COLOR, "day with an anomaly of a project"),
    ):
        chosen_days = [day for day in days if (day in anomaly_days) is is_anomaly]
        axis.bar(chosen_days, [totals[day] for day in chosen_days], width=0.8, color=color, label=label)
    axis.set_ylabel("USD")
    axis.tick_params(axis="x", rotation=30)
    _format_axis(axis, "y")
    return save_figure(path, figure, dpi=120)


def _format_axis(axis: Axes, value_axis: Any) -> None:
    """Add the legend and a grid along one axis, "x" or "y": the one that shows USD."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(True, axis=value_axis, color="#eeeeee")
    axis.set_axisbelow(True)
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=9)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_LABEL_CHARS else f"{text[: MAX_LABEL_CHARS - 1]}…"
