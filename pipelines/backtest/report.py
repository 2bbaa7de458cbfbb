"""Write the report of a backtest: an HTML page that contains the chart, and the chart as a PNG file.

Equal backtests give byte-identical files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from pipelines.backtest.primary import Gain, compare_values
from pipelines.backtest.study import NEVER_STRATEGY, Backtest, Strategy
from pipelines.costs.charges import format_usd
from pipelines.pages.drawing import plt, save_figure
from pipelines.pages.page import write_page

PAGE = "backtest.html"
"""Name of the page's file, and of its template."""
STYLES = (
    {"color": "#1f5fa8", "marker": "o", "linewidth": 2.2},
    {"color": "#8c8c8c", "marker": "s", "linewidth": 1.8, "linestyle": "--"},
    {"color": "#e08a1e", "marker": "D", "linewidth": 1.4, "linestyle": "-.", "markersize": 5},
)
"""Line styles of the strategies, in their order. If two lines coincide, the thinner line is drawn on top."""


def write_report(folder: Path, backtest: Backtest) -> Path:
    """Write the page backtest.html and the chart backtest.png to the folder; return the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = draw_chart(folder / "backtest.png", backtest)
    values = {
        "months": [_format_month(backtest, index) for index in range(len(backtest.months))],
        "strategies": [_build_strategy_row(strategy, backtest) for strategy in backtest.strategies],
        "by_month": list(_build_month_rows(backtest)),
    }
    return write_page(folder / PAGE, PAGE, [picture], backtest=backtest, **values)


def summarize_backtest(backtest: Backtest) -> list[str]:
    """Return lines for a terminal: a heading, and for each strategy the mean metric, number of trainings and cost."""
    span = f"{_format_month(backtest, 0)} to {_format_month(backtest, -1)}"
    rows = sum(month.rows for month in backtest.months)
    heading = f"{backtest.model}, {span}: {len(backtest.months)} month(s), {rows:,} rows."
    return [heading, *(f"{strategy.name:16} {_summarize(strategy, backtest)}" for strategy in backtest.strategies)]


def draw_chart(path: Path, backtest: Backtest) -> Path:
    """Draw each strategy's primary metric by month into a PNG file; return the path."""
    months = [_format_month(backtest, index) for index in range(len(backtest.months))]
    figure, axis = plt.subplots(figsize=(max(7.5, 0.75 * len(months) + 2.5), 4.4), layout="constrained")
    for strategy, style in zip(backtest.strategies, STYLES, strict=True):
        axis.plot(
            months,
            strategy.list_monthly_values(backtest.months),
            label=f"{strategy.name}: {_format_trainings(strategy)}",
            **style,
        )
    title = f"{backtest.model}: {backtest.metric.title} of each month, by the model that would have served"
    axis.set_title(title, fontsize=11, loc="left")
    axis.set_ylabel(backtest.metric.title)
    axis.margins(y=0.15)
    axis.spines[["top", "right"]].set_visible(False)
    axis.yaxis.grid(True, color="#eeeeee")
    axis.set_axisbelow(True)
    if len(months) > 8:
        axis.tick_params(axis="x", rotation=45)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return save_figure(path, figure, dpi=120)


def _build_strategy_row(strategy: Strategy, backtest: Backtest) -> dict[str, Any]:
    """Return the row of a strategy in the page's table of strategies."""
    values = strategy.list_monthly_values(backtest.months)
    worst_index = backtest.metric.find_worst_index(values)
    return {
        "name": strategy.name,
        "trainings": len(strategy.trained_models),
        "refused": sum(not model.has_passed for model in strategy.trained_models),
        "cost": "-" if strategy.cost_usd is None else f"{strategy.cost_usd:.4f}",
        "mean": fmean(values),
        "gain": _compare_with_no_retraining(strategy, backtest),
        "worst": values[worst_index],
        "worst_month": _format_month(backtest, worst_index),
    }


def _build_month_rows(backtest: Backtest) -> Iterator[dict[str, Any]]:
    """Yield one row for each month: for each strategy, its value, whether this is the best, and the model's as_of."""
    all_values = [strategy.list_monthly_values(backtest.months) for strategy in backtest.strategies]
    for index, month in enumerate(backtest.months):
        best_value = backtest.metric.find_best([values[index] for values in all_values])
        cells = [
            {
                "value": values[index],
                "best": values[index] == best_value,
                "as_of": strategy.serving_models[index].as_of,
            }
            for strategy, values in zip(backtest.strategies, all_values, strict=True)
        ]
        yield {"month": _format_month(backtest, index), "rows": month.rows, "cells": cells}


def _summarize(strategy: Strategy, backtest: Backtest) -> str:
    cost = "cost unknown" if strategy.cost_usd is None else format_usd(strategy.cost_usd)
    mean = fmean(strategy.list_monthly_values(backtest.months))
    return f"mean {backtest.metric.title} {mean:.4f}, {_format_trainings(strategy)}, {cost}"


def _compare_with_no_retraining(strategy: Strategy, backtest: Backtest) -> Gain | None:
    """Compare a strategy with `NEVER_STRATEGY`; None if the strategy is this one, or if there is only one month."""
    (never_strategy,) = [candidate for candidate in backtest.strategies if candidate.name == NEVER_STRATEGY]
    if strategy is never_strategy:
        return None
    values, other_values = (each.list_monthly_values(backtest.months) for each in (strategy, never_strategy))
    return compare_values(backtest.metric, values, other_values)


def _format_trainings(strategy: Strategy) -> str:
    count = len(strategy.trained_models)
    return f"{count} training{'s' if count > 1 else ''}"


def _format_month(backtest: Backtest, index: int) -> str:
    return f"{backtest.months[index].days.first:%Y-%m}"
