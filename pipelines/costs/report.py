"""The ledger in figures: grouped rows, a table for people, a chart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.table import Table

from pipelines.costs.charges import HOUR_S, usd
from pipelines.errors import SpecError
from pipelines.lake import PARTITION

KEYS = ("month", "project", "model", "instance_type", "dag_id")
"""What the report can be grouped by."""
HEADS = (
    *("jobs", "inter-\nruptions", "training\nh", "billable\nh"),
    *("cost\nUSD", "on demand\nUSD", "saved\nUSD", "saved\n%", "lost\ns"),
)
SHOWN = 6
"""Instance types that the chart tells apart; those that cost least share the last colour."""
OTHERS = "others"
COLOURS = ("#1f5fa8", "#e08a1e", "#3a9168", "#b8434e", "#7a5ca8", "#8c8c8c")
SAVED = "#dfe6ee"

Row = Mapping[str, Any]


def keys_of(text: str) -> list[str]:
    """The keys in a list such as `month,model`.

    Raises:
        SpecError: one is unknown, or there is none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    odd = [name for name in names if name not in KEYS]
    if odd or not names:
        raise SpecError(
            f"--by {text!r}: unknown key {odd[0]}." if odd else "--by is empty.", f"Known: {', '.join(KEYS)}."
        )
    return list(dict.fromkeys(names))


def grouped(rows: Iterable[Row], keys: Sequence[str]) -> list[dict[str, Any]]:
    """A record a group: its keys, and its jobs' figures added up; sorted by the keys."""

    def key(row: Row) -> tuple[str, ...]:
        return tuple(_value(row, name) for name in keys)

    return [
        {**dict(zip(keys, told, strict=True)), **added(list(members))}
        for told, members in groupby(sorted(rows, key=key), key)
    ]


def added(rows: Sequence[Row]) -> dict[str, float]:
    """The figures of jobs, added up: hours times instances, USD, seconds; `saving` is the share of USD saved."""
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


def table(groups: Sequence[Row], keys: Sequence[str], total: Row, prices: str) -> Table:
    """The groups and their sum, for people."""
    made = Table(title="Training costs", caption=prices, caption_justify="left")
    for name in keys:
        made.add_column(name.replace("_", " "))
    for name in HEADS:
        made.add_column(name, justify="right")
    digits = 2 if total["on_demand_usd"] >= 10 else 4
    for group in groups:
        made.add_row(*(group[name] or "-" for name in keys), *_cells(group, digits))
    made.add_section()
    made.add_row("all", *([""] * (len(keys) - 1)), *_cells(total, digits), style="bold")
    return made


def price_note(rows: Sequence[Row]) -> str:
    """As of when the prices are that the rows were charged at."""
    dates = sorted({row["price_date"].isoformat() for row in rows})
    return f"On-demand prices as of {dates[0]}" + (f" to {dates[-1]}." if len(dates) > 1 else ".")


def draw(path: Path, rows: Sequence[Row]) -> None:
    """`path` is a PNG: for each month what was paid, by instance type, and on top of it what spot saved."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from pipelines.system.files import replace_file

    months = sorted({_value(row, "month") for row in rows})
    paid, saved = _stacks(rows)
    figure, axis = plt.subplots(figsize=(max(6.0, 0.7 * len(months) + 3.5), 4.2), layout="constrained")
    reached = [0.0] * len(months)
    for (name, amounts), colour in zip(paid.items(), COLOURS, strict=False):
        heights = [amounts[month] for month in months]
        axis.bar(months, heights, bottom=reached, width=0.65, color=colour, label=f"paid: {name}")
        reached = [low + height for low, height in zip(reached, heights, strict=True)]
    gain = [max(0.0, saved[month]) for month in months]
    axis.bar(months, gain, bottom=reached, width=0.65, color=SAVED, label="saved by spot")
    for month, low, more in zip(months, reached, gain, strict=True):
        share = more / (low + more) if low + more else 0.0
        axis.annotate(
            f"-{share:.0%}" if share >= 0.005 else "",
            (month, low + more),
            (0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    _finish(axis, f"Training costs: {usd(sum(reached))} paid, {usd(sum(gain))} saved by spot")
    with replace_file(path) as making:
        # No date or version inside: equal rows give equal bytes.
        figure.savefig(making, dpi=120, format="png", metadata={"Software": None})
    plt.close(figure)


def _finish(axis: Any, title: str) -> None:
    axis.set_title(title, fontsize=11, loc="left")
    axis.set_ylabel("USD")
    axis.margins(y=0.12)
    axis.spines[["top", "right"]].set_visible(False)
    axis.yaxis.grid(True, color="#eeeeee")
    axis.set_axisbelow(True)
    if len(axis.get_xticks()) > 12:
        axis.tick_params(axis="x", rotation=60)
    # Beside the bars, not on them; from top to bottom as they are stacked.
    axis.legend(
        *(one[::-1] for one in axis.get_legend_handles_labels()),
        loc="upper left",
        bbox_to_anchor=(1, 1),
        frameon=False,
        fontsize=9,
    )


def _stacks(rows: Iterable[Row]) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """What was paid, by instance type (dearest first) and month; what was saved, by month."""
    paid: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    saved: dict[str, float] = defaultdict(float)
    for row in rows:
        paid[row["instance_type"]][_value(row, "month")] += row["cost_usd"]
        saved[_value(row, "month")] += row["on_demand_usd"] - row["cost_usd"]
    ranked = sorted(paid, key=lambda name: (-sum(paid[name].values()), name))
    kept = ranked if len(ranked) <= SHOWN else ranked[: SHOWN - 1]
    stacks = {name: paid[name] for name in kept}
    for name in ranked[len(kept) :]:
        others = stacks.setdefault(OTHERS, defaultdict(float))
        for month, amount in paid[name].items():
            others[month] += amount
    return stacks, saved


def _value(row: Row, key: str) -> str:
    return f"{row[PARTITION]:%Y-%m}" if key == "month" else str(row[key])


def _cells(figures: Row, digits: int) -> list[str]:
    return [
        *(str(figures[name]) for name in ("jobs", "interruptions")),
        *(f"{figures[name]:,.3f}" for name in ("training_h", "billable_h")),
        *(f"{figures[name]:,.{digits}f}" for name in ("cost_usd", "on_demand_usd", "saved_usd")),
        f"{100 * figures['saving']:.1f}",
        f"{figures['lost_s']:,.0f}",
    ]
