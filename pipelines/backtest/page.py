"""Report of a backtest: an HTML page with its chart inside, and the chart as a PNG. Equal studies give equal bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from pipelines.backtest.study import Strategy, Study
from pipelines.costs.charges import format_usd
from pipelines.pages.drawing import plt, save_figure
from pipelines.pages.page import write_page

PAGE = "backtest.html"
STYLES = (
    {"color": "#1f5fa8", "marker": "o", "linewidth": 2.2},
    {"color": "#8c8c8c", "marker": "s", "linewidth": 1.8, "linestyle": "--"},
    {"color": "#e08a1e", "marker": "D", "linewidth": 1.4, "linestyle": "-.", "markersize": 5},
)
"""Line styles of the strategies, in their order. Where two lines coincide, the thinner one is drawn on top."""


def write(folder: Path, study: Study) -> Path:
    """Write backtest.html and its chart backtest.png to the folder; return the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = draw(folder / "backtest.png", study)
    values = {
        "months": [_format_month(study, number) for number in range(len(study.months))],
        "strategies": [_build_strategy_row(strategy, study) for strategy in study.strategies],
        "by_month": list(_build_month_rows(study)),
    }
    return write_page(folder / PAGE, PAGE, [picture], study=study, **values)


def format_lines(study: Study) -> list[str]:
    """List one line for each strategy, for a terminal."""
    span = f"{_format_month(study, 0)} to {_format_month(study, -1)}"
    head = f"{study.model}, {span}: {len(study.months)} month(s), {sum(month.rows for month in study.months):,} rows."
    return [head, *(f"{strategy.name:16} {_summarize(strategy, study)}" for strategy in study.strategies)]


def draw(path: Path, study: Study) -> Path:
    """Draw each strategy's AUC by month into a PNG file; return the path."""
    names = [_format_month(study, n) for n in range(len(study.months))]
    figure, axis = plt.subplots(figsize=(max(7.5, 0.75 * len(names) + 2.5), 4.4), layout="constrained")
    for strategy, style in zip(study.strategies, STYLES, strict=True):
        axis.plot(
            names,
            strategy.list_monthly_auc(study.months),
            label=f"{strategy.name}: {_format_trainings(strategy)}",
            **style,
        )
    axis.set_title(f"{study.model}: AUC of each month, by the model that would have served", fontsize=11, loc="left")
    axis.set_ylabel("AUC")
    axis.margins(y=0.15)
    axis.spines[["top", "right"]].set_visible(False)
    axis.yaxis.grid(True, color="#eeeeee")
    axis.set_axisbelow(True)
    if len(names) > 8:
        axis.tick_params(axis="x", rotation=45)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return save_figure(path, figure, dpi=120)


def _build_strategy_row(strategy: Strategy, study: Study) -> dict[str, Any]:
    auc = strategy.list_monthly_auc(study.months)
    worst = min(range(len(auc)), key=auc.__getitem__)
    return {
        "name": strategy.name,
        "trainings": len(strategy.trained),
        "refused": sum(not model.passed for model in strategy.trained),
        "cost": "-" if strategy.cost_usd is None else f"{strategy.cost_usd:.4f}",
        "auc": fmean(auc),
        "worst": auc[worst],
        "worst_month": _format_month(study, worst),
    }


def _build_month_rows(study: Study) -> Iterator[dict[str, Any]]:
    """Yield one row for each month: for each strategy its AUC, whether it is the best, and the model that served."""
    aucs = [strategy.list_monthly_auc(study.months) for strategy in study.strategies]
    for number, month in enumerate(study.months):
        best = max(auc[number] for auc in aucs)
        cells = [
            {"auc": auc[number], "best": auc[number] == best, "as_of": strategy.served[number].as_of}
            for strategy, auc in zip(study.strategies, aucs, strict=True)
        ]
        yield {"month": _format_month(study, number), "rows": month.rows, "cells": cells}


def _summarize(strategy: Strategy, study: Study) -> str:
    cost = "cost unknown" if strategy.cost_usd is None else format_usd(strategy.cost_usd)
    return f"mean AUC {fmean(strategy.list_monthly_auc(study.months)):.4f}, {_format_trainings(strategy)}, {cost}"


def _format_trainings(strategy: Strategy) -> str:
    count = len(strategy.trained)
    return f"{count} training{'s' if count > 1 else ''}"


def _format_month(study: Study, number: int) -> str:
    return f"{study.months[number].days.first:%Y-%m}"
