"""Report a recommendation: lines and a table for the terminal, a chart as a PNG file, and an HTML page."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.costs.charges import format_usd
from pipelines.escaping import escape
from pipelines.planning.recommendation.limits import format_duration
from pipelines.planning.recommendation.options import Exclusion, Option, Recommendation

if TYPE_CHECKING:
    from rich.table import Table

PAGE = "plan.html"
OLD_DAYS = 90
"""The report warns of prices that are older than this number of days."""
MAX_SHOWN = 12
"""Number of options in the table of the terminal, unless more are on the Pareto front."""
MAX_NAMES = 3
"""Largest number of names in the line about the past jobs that were left out."""
KINDS = {
    "memory": "do not fit in memory",
    "spot": "interrupted too often",
    "run": "stopped before their end",
    "deadline": "past the deadline",
    "budget": "over the budget",
    "price": "price not known",
    "accelerator": "no suitable GPU",
    "neuron": "need the AWS Neuron SDK",
    "architecture": "other processor",
    "burstable": "slowed down under load",
    "on demand": "only on demand",
    "unknown": "figures not known",
}
"""Maps each kind of exclusion to its title, in the order in which they are shown."""


def format_lines(recommendation: Recommendation, today: dt.date) -> list[str]:
    """Return the recommendation in sentences."""
    lines = [f"Workload: {recommendation.workload}.", f"Limits: {recommendation.limits.describe()}."]
    for title, option in (("Cheapest", recommendation.cheapest), ("Fastest", recommendation.fastest)):
        if option:
            lines.append(f"{title}: {describe_choice(option)}.")
    lines += list(describe_prices(recommendation, today))
    accuracy = recommendation.accuracy
    lines.append(f"Accuracy: {accuracy.describe()}" if accuracy else "Accuracy: no past job with a prediction yet.")
    return [*lines, *describe_unusable_jobs(recommendation)]


def describe_unusable_jobs(recommendation: Recommendation) -> list[str]:
    """Say which past jobs were left out because of their rows in the ledger; empty if there is none."""
    names = recommendation.unusable_jobs
    if not names:
        return []
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return [
        f"Ledger: {len(names)} past job(s) left out, because a figure of their rows is missing or not possible: "
        f"{', '.join(names[:MAX_NAMES])}{more}."
    ]


def describe_choice(option: Option) -> str:
    """Describe an option with its range of time, its setup and its risks."""
    time_range = f"training {format_duration(option.low_s)} to {format_duration(option.high_s)}"
    risks = f"; risk: {'; '.join(option.risks)}" if option.risks else ""
    return f"{option.describe()} ({', '.join(filter(None, [time_range, option.setup]))}){risks}"


def describe_prices(recommendation: Recommendation, today: dt.date) -> list[str]:
    """Say of which day the prices are, and what to do if they are old."""
    dates = recommendation.price_dates
    if not dates:
        return []
    age = (today - dt.date.fromisoformat(dates[0])).days
    old_text = (
        f": the oldest are {age} days old; renew them with python -m pipelines prices refresh" if age > OLD_DAYS else ""
    )
    return [f"Prices: of {' and '.join(dates)}{old_text}."]


def group_exclusions(recommendation: Recommendation) -> list[dict[str, Any]]:
    """Group the exclusions by kind and reason: `title`, and `reasons` with the types of each."""
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    regions = {entry.region for entry in recommendation.exclusions}
    for entry in recommendation.exclusions:
        groups[entry.kind][entry.reason].append(_format_type(entry, len(regions) > 1))
    return [
        {"title": title, "reasons": [{"reason": reason, "types": types} for reason, types in groups[kind].items()]}
        for kind, title in KINDS.items()
        if kind in groups
    ]


def format_exclusions(recommendation: Recommendation) -> list[str]:
    """Return a line for each reason, with the types that it concerns."""
    return [
        f"{group['title']}: {', '.join(entry['types'])}: {entry['reason']}."
        for group in group_exclusions(recommendation)
        for entry in group["reasons"]
    ]


def build_table(recommendation: Recommendation, title: str) -> Table:
    """Build the table of the Pareto front and of the cheapest other options."""
    from rich.table import Table

    table = Table(title=title)
    for name in (
        "machines",
        "region",
        "time",
        "low",
        "high",
        "cost USD",
        "at worst",
        "plan 1 y",
        "plan 3 y",
        "best",
    ):
        table.add_column(name, justify="left" if name in ("machines", "region", "best") else "right")
    front = recommendation.front
    other_options = [option for option in recommendation.options if option not in front]
    shown_options = sorted(
        [*front, *other_options[: max(0, MAX_SHOWN - len(front))]], key=lambda option: option.cost_usd
    )
    for option in shown_options:
        plans = [_format_savings_plan(option, term) for term in ("1y", "3y")]
        times = [format_duration(seconds) for seconds in (option.finish_s, option.low_finish_s, option.high_finish_s)]
        costs = [f"{option.cost_usd:,.2f}", f"{option.high_usd:,.2f}"]
        mark = "front" if option in front else ""
        table.add_row(escape(option.machines), escape(option.region), *times, *costs, *plans, mark)
    return table


def _format_savings_plan(option: Option, term: str) -> str:
    amount = option.plan_usd.get(term)
    return f"{amount:,.2f}" if amount is not None else "-" if option.market == "spot" else "unknown"


def draw_front(path: Path, recommendation: Recommendation) -> Path:
    """Draw time and cost of the options, of the nearest option of each excluded type, and the Pareto front, as PNG."""
    from pipelines.pages.drawing import CANDIDATE_COLOR, CHAMPION_COLOR, REFERENCE_COLOR, plt, save_figure

    figure, axis = plt.subplots(figsize=(8.6, 4.6), layout="constrained")
    excluded_options = [entry.nearest for entry in recommendation.exclusions if entry.nearest]
    for options, color, label in (
        (excluded_options, REFERENCE_COLOR, "beyond the limits (nearest of its type)"),
        ([option for option in recommendation.options if option.market == "on demand"], CHAMPION_COLOR, "on demand"),
        ([option for option in recommendation.options if option.market == "spot"], CANDIDATE_COLOR, "spot"),
    ):
        if options:
            hours, costs = [option.finish_s / 3600 for option in options], [option.cost_usd for option in options]
            axis.scatter(hours, costs, s=26, color=color, label=label, zorder=3)
    front = recommendation.front
    if len(front) > 1:
        axis.plot(
            [option.finish_s / 3600 for option in front],
            [option.cost_usd for option in front],
            color="#1c2733",
            linewidth=1,
            label="none is faster and cheaper",
            zorder=2,
        )
    for title, option, offset_y in (("cheapest", recommendation.cheapest, -13), ("fastest", recommendation.fastest, 7)):
        if option:
            position = (option.finish_s / 3600, option.cost_usd)
            text = f"{title}: {option.machines}"
            axis.annotate(text, position, (0, offset_y), textcoords="offset points", fontsize=8)
    _draw_limits(axis, recommendation)
    _format_axis(axis)
    return save_figure(path, figure, dpi=120)


def _draw_limits(axis: Any, recommendation: Recommendation) -> None:
    limits = recommendation.limits
    if limits.deadline_s is not None:
        axis.axvline(limits.deadline_s / 3600, color="#b8434e", linestyle="--", linewidth=1, label="deadline")
    if limits.budget_usd is not None:
        axis.axhline(limits.budget_usd, color="#b8434e", linestyle=":", linewidth=1, label="budget")


def _format_axis(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_xscale("log")
    axis.set_yscale("log")
    for side in (axis.xaxis, axis.yaxis):
        # By default, tick labels of a log scale are TeX formulas, which pages/drawing.py turns off (text.parse_math).
        side.set_major_locator(LogLocator(subs=(1, 2, 5)))
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        side.set_minor_formatter(NullFormatter())
    axis.set_xlabel("hours until the end")
    axis.set_ylabel("cost, USD")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(True, color="#eeeeee")
    axis.set_axisbelow(True)
    axis.margins(0.12)
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=9)


def write_page(path: Path, recommendation: Recommendation, today: dt.date) -> Path:
    """Write the HTML page with the chart inside; return its path."""
    from pipelines.pages.page import write_page as write

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        picture = draw_front(Path(folder) / "front.png", recommendation)
        return write(
            path,
            PAGE,
            [picture],
            result=recommendation,
            lines=format_lines(recommendation, today),
            best=_build_best_options(recommendation),
            rows=[_build_row(option, recommendation) for option in recommendation.options],
            groups=group_exclusions(recommendation),
        )


def _build_best_options(recommendation: Recommendation) -> list[dict[str, str]]:
    options = (("cheapest", recommendation.cheapest), ("fastest", recommendation.fastest))
    return [
        {
            "title": title,
            "machines": option.machines,
            "figures": f"{format_duration(option.finish_s)}, {format_usd(option.cost_usd)}",
        }
        for title, option in options
        if option
    ]


def _build_row(option: Option, recommendation: Recommendation) -> dict[str, Any]:
    return {
        "machines": option.machines,
        "region": option.region,
        "time": format_duration(option.finish_s),
        "band": f"{format_duration(option.low_s)} to {format_duration(option.high_s)}",
        "cost": format_usd(option.cost_usd),
        "worst": format_usd(option.high_usd),
        "plans": [_format_savings_plan(option, term) for term in ("1y", "3y")],
        "setup": option.setup,
        "risks": "; ".join(option.risks),
        "is_front": option in recommendation.front,
    }


def _format_type(entry: Exclusion, has_many_regions: bool) -> str:
    return f"{entry.instance_type} ({entry.region})" if has_many_regions else entry.instance_type
