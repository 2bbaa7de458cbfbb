"""Build reports from rows of a ledger: grouped sums, the table of jobs for the terminal, and a chart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.table import Table

from pipelines.costs.charges import HOUR_S, format_usd
from pipelines.errors import SpecError
from pipelines.escaping import escape
from pipelines.lake import DATE_COLUMN

PAYER_KEYS = ("team", "project", "model", "dataset", "environment", "user")
"""Columns that say who pays. Where one is empty, the report shows `UNALLOCATED`."""
KEYS = ("month", *PAYER_KEYS, "instance_type", "dag_id", "endpoint", "variant")
"""Columns by which the report can be grouped. Jobs have no endpoint and no variant, and endpoints have no DAG: the
value is then empty."""
UNALLOCATED = "unallocated"
HEADINGS = (
    *("jobs", "inter-\nruptions", "training\nh", "billable\nh"),
    *("cost\nUSD", "on demand\nUSD", "saved\nUSD", "saved\n%", "lost\ns"),
)
"""Headings of the columns with figures, in the order of `_format_cells`."""
MAX_COLORS = 6
"""Number of colors in the chart. If there are more instance types, those with the lowest cost share the last color."""
OTHERS = "others"
"""Label of the instance types that share a color."""
COLORS = ("#1f5fa8", "#e08a1e", "#3a9168", "#b8434e", "#7a5ca8", "#8c8c8c")
SAVED_COLOR = "#dfe6ee"
SAVED_BY_SPOT = "saved by spot"

Row = Mapping[str, Any]


def parse_keys(text: str) -> list[str]:
    """Parse a list of grouping keys such as `month,model`.

    Raises:
        SpecError: a key is unknown, or there is none. A retry cannot help.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown_names = [name for name in names if name not in KEYS]
    if unknown_names or not names:
        raise SpecError(
            f"--by {text!r}: unknown key {unknown_names[0]}." if unknown_names else "--by is empty.",
            f"Use one of: {', '.join(KEYS)}.",
        )
    return list(dict.fromkeys(names))


def group_rows(
    rows: Iterable[Row], keys: Sequence[str], sum_group: Callable[[Sequence[Row]], dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Group the rows by the keys, and sum the figures of each group. The groups are sorted by the keys.

    Args:
        rows: rows of the ledger.
        keys: grouping keys.
        sum_group: sums the figures of a group; None: `sum_rows`.
    """
    sum_group = sum_group or sum_rows

    def get_group_key(row: Row) -> tuple[str, ...]:
        return tuple(_get_key_value(row, name) for name in keys)

    return [
        {**dict(zip(keys, values, strict=True)), **sum_group(list(members))}
        for values, members in groupby(sorted(rows, key=get_group_key), get_group_key)
    ]


def sum_rows(rows: Sequence[Row]) -> dict[str, float]:
    """Sum the figures of jobs: instance hours, USD, seconds. `saving` is the saved share of the on-demand cost."""
    cost, on_demand = (sum(row[name] for row in rows) for name in ("cost_usd", "on_demand_usd"))
    hours = {
        f"{name}_h": sum(row[f"{name}_s"] * row["instance_count"] for row in rows) / HOUR_S
        for name in ("training", "billable")
    }
    return {
        "jobs": len(rows),
        "interruptions": sum(row["interruptions"] for row in rows),
        **hours,
        "cost_usd": cost,
        "on_demand_usd": on_demand,
        "saved_usd": on_demand - cost,
        "saving": 1 - cost / on_demand if on_demand else 0.0,
        "lost_s": sum(row["lost_s"] for row in rows),
    }


def build_table(groups: Sequence[Row], keys: Sequence[str], total: Row, caption: str) -> Table:
    """Build the table of the groups and their total.

    Args:
        groups: the result of `group_rows`.
        keys: grouping keys.
        total: sums of all rows.
        caption: text below the table, such as `describe_price_dates` returns.
    """
    digits = 2 if total["on_demand_usd"] >= 10 else 4
    table = Table(title="Training costs", caption=caption, caption_justify="left")
    fill_table(table, HEADINGS, keys, [*groups, total], lambda sums: _format_cells(sums, digits))
    return table


def fill_table(
    table: Table,
    headings: Sequence[str],
    keys: Sequence[str],
    groups_and_total: Sequence[Row],
    format_cells: Callable[[Row], Iterable[str]],
) -> None:
    """Add columns and rows to a table of groups.

    Args:
        table: the empty table.
        headings: headings of the columns with figures.
        keys: grouping keys.
        groups_and_total: sums of each group, and of all rows as the last one.
        format_cells: formats the figures of sums, in the order of the headings.
    """
    for name in keys:
        table.add_column(name.replace("_", " "))
    for name in headings:
        table.add_column(name, justify="right")
    *groups, total = groups_and_total
    for group in groups:
        table.add_row(*(escape(group[name] or "-") for name in keys), *format_cells(group))
    table.add_section()
    table.add_row("all", *([""] * (len(keys) - 1)), *format_cells(total), style="bold")


def describe_price_dates(rows: Sequence[Row]) -> str:
    """Describe the dates of the prices at which the rows were charged."""
    dates = sorted({row["price_date"].isoformat() for row in rows if row["price_date"]})
    if not dates:
        return "The date of the on-demand prices is not known."
    return f"On-demand prices as of {dates[0]}" + (f" to {dates[-1]}." if len(dates) > 1 else ".")


def draw_chart(path: Path, rows: Sequence[Row], saving_label: str = SAVED_BY_SPOT) -> None:
    """Draw a PNG file with a stacked bar for each month: the cost by instance type, and on top the saving.

    Args:
        path: file to write.
        rows: rows of jobs, or of endpoints as `endpoints.report.build_chart_rows` returns them.
        saving_label: cause of the saving, for the legend.
    """
    from pipelines.pages.drawing import plt, save_figure

    months = sorted({_get_key_value(row, "month") for row in rows})
    costs_by_type, savings_by_month = _sum_by_month_and_type(rows)
    figure, axis = plt.subplots(figsize=(max(6.0, 0.7 * len(months) + 3.5), 4.2), layout="constrained")
    tops = [0.0] * len(months)
    for (name, amounts), color in zip(costs_by_type.items(), COLORS, strict=False):
        heights = [amounts[month] for month in months]
        axis.bar(months, heights, bottom=tops, width=0.65, color=color, label=f"paid: {name}")
        tops = [top + height for top, height in zip(tops, heights, strict=True)]
    savings = [max(0.0, savings_by_month[month]) for month in months]
    axis.bar(months, savings, bottom=tops, width=0.65, color=SAVED_COLOR, label=saving_label)
    for month, cost, saving in zip(months, tops, savings, strict=True):
        share = saving / (cost + saving) if cost + saving else 0.0
        axis.annotate(
            f"-{share:.0%}" if share >= 0.005 else "",
            (month, cost + saving),
            (0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    title = "Training costs" if saving_label == SAVED_BY_SPOT else "Costs"
    _format_axis(axis, f"{title}: {format_usd(sum(tops))} paid, {format_usd(sum(savings))} {saving_label}")
    save_figure(path, figure, dpi=120)


def _format_axis(axis: Any, title: str) -> None:
    axis.set_title(title, fontsize=11, loc="left")
    axis.set_ylabel("USD")
    axis.margins(y=0.12)
    axis.spines[["top", "right"]].set_visible(False)
    axis.yaxis.grid(True, color="#eeeeee")
    axis.set_axisbelow(True)
    if len(axis.get_xticks()) > 12:
        axis.tick_params(axis="x", rotation=60)
    # The legend stands beside the bars, in the order in which they are stacked.
    axis.legend(
        *(entries[::-1] for entries in axis.get_legend_handles_labels()),
        loc="upper left",
        bbox_to_anchor=(1, 1),
        frameon=False,
        fontsize=9,
    )


def _sum_by_month_and_type(rows: Iterable[Row]) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Return the cost by instance type and month, and the saving of each month, both in USD.

    The instance type with the highest cost comes first, `OTHERS` last.
    """
    costs_by_type: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    savings_by_month: dict[str, float] = defaultdict(float)
    for row in rows:
        costs_by_type[row["instance_type"]][_get_key_value(row, "month")] += row["cost_usd"]
        savings_by_month[_get_key_value(row, "month")] += row["on_demand_usd"] - row["cost_usd"]
    ranked_types = sorted(costs_by_type, key=lambda name: (-sum(costs_by_type[name].values()), name))
    shown_types = ranked_types if len(ranked_types) <= MAX_COLORS else ranked_types[: MAX_COLORS - 1]
    stacks = {name: costs_by_type[name] for name in shown_types}
    for name in ranked_types[len(shown_types) :]:
        other_costs = stacks.setdefault(OTHERS, defaultdict(float))
        for month, amount in costs_by_type[name].items():
            other_costs[month] += amount
    return stacks, savings_by_month


def _get_key_value(row: Row, key: str) -> str:
    if key == "month":
        return f"{row[DATE_COLUMN]:%Y-%m}"
    return str(row.get(key) or (UNALLOCATED if key in PAYER_KEYS else ""))


def _format_cells(figures: Row, digits: int) -> list[str]:
    return [
        *(str(figures[name]) for name in ("jobs", "interruptions")),
        *(f"{figures[name]:,.3f}" for name in ("training_h", "billable_h")),
        *(f"{figures[name]:,.{digits}f}" for name in ("cost_usd", "on_demand_usd", "saved_usd")),
        f"{100 * figures['saving']:.1f}",
        f"{figures['lost_s']:,.0f}",
    ]
