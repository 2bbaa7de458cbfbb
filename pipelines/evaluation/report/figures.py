"""The report's pictures. Equal numbers give equal bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.metrics import calibration
from pipelines.evaluation.report.curves import GRID, Band, Curves
from pipelines.pages.drawing import CANDIDATE, CHAMPION, FAINT, Axes, plt, save_figure

TOP_SLICES = 25
"""Slices that the picture shows: those with the lowest values."""


@dataclass(frozen=True)
class Seen:
    """What the pictures show."""

    rows: Holdout
    candidate: Curves
    champion: Curves | None
    slices: pd.DataFrame
    weeks: pd.DataFrame
    importance: Mapping[str, float]
    threshold: float
    confusion: Mapping[str, int]


def draw(folder: Path, seen: Seen) -> list[Path]:
    """`folder` has the pictures; their paths, in the page's order."""
    pictures: dict[str, Callable[[Seen], Any]] = {"curves": _curves, "reliability": _reliability, "parts": _parts}
    return [save_figure(folder / f"{name}.png", make(seen)) for name, make in pictures.items()]


def _curves(seen: Seen) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    left.plot([0, 1], [0, 1], color=FAINT, linestyle="--", linewidth=1)
    right.axhline(float(seen.rows.label.mean()), color=FAINT, linestyle="--", linewidth=1)
    for curves, name, color in _both(seen):
        _curve(left, curves.roc, name, color)
        _curve(right, curves.precision, name, color)
    left.set(xlabel="false positive rate", ylabel="true positive rate", title="ROC")
    right.set(xlabel="recall", ylabel="precision", title="Precision-recall", ylim=(0, 1))
    left.legend(loc="lower right", frameon=False)
    return figure


def _both(seen: Seen) -> list[tuple[Curves, str, str]]:
    found = [(seen.candidate, "candidate", CANDIDATE)]
    return found if seen.champion is None else [(seen.champion, "champion", CHAMPION), *found]


def _curve(axis: Axes, band: Band, name: str, color: str) -> None:
    axis.fill_between(GRID, band.low, band.high, color=color, alpha=0.18, linewidth=0)
    axis.plot(GRID, band.value, color=color, label=f"{name}, 95 % band")


def _reliability(seen: Seen) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    top = 0.0
    for score, name, color in (
        (seen.rows.champion, "champion", CHAMPION),
        (seen.rows.candidate, "candidate", CANDIDATE),
    ):
        if score is not None:
            top = max(top, _reliable(left, seen.rows.label, score, name, color))
    left.plot([0, top], [0, top], color=FAINT, linestyle="--", linewidth=1)
    left.set(xlabel="mean score of a tenth of the rows", ylabel="observed rate", title="Reliability")
    left.legend(loc="upper left", frameon=False)
    names, shares = list(seen.importance)[:15][::-1], list(seen.importance.values())[:15][::-1]
    right.barh(names, shares, color=CANDIDATE)
    right.tick_params(axis="y", labelsize=8)
    right.set(xlabel="share of the total gain", title="Feature importance")
    return figure


def _reliable(axis: Axes, label: Array, score: Array, name: str, color: str) -> float:
    bins = calibration(label, score)
    axis.plot(bins["predicted"], bins["observed"], color=color, marker="o", markersize=4, label=name)
    return 1.05 * float(max(*bins["predicted"], *bins["observed"]))


def _parts(seen: Seen) -> Any:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    what = "AUC" if seen.rows.champion is None else "AUC less the champion's"
    lowest = seen.slices.dropna(subset=["value"]).sort_values("value", ascending=False).tail(TOP_SLICES)
    _whiskers(left, lowest, f"Slices: {what}")
    _whiskers(middle, seen.weeks.dropna(subset=["value"]).iloc[::-1], "Weeks of the holdout: AUC")
    _matrix(right, seen.confusion, seen.threshold)
    return figure


def _whiskers(axis: Axes, told: pd.DataFrame, title: str) -> None:
    """Each part with its interval, first at the bottom; grey where it was not judged."""
    axis.set_title(title)
    if told.empty:
        axis.text(0.5, 0.5, "none", ha="center", va="center", color=FAINT, transform=axis.transAxes)
        axis.set_axis_off()
        return
    parts: list[dict[Any, Any]] = told.to_dict("records")
    for place, one in enumerate(parts):
        ends = [[one["value"] - one["low"]], [one["high"] - one["value"]]]
        color = CANDIDATE if one["judged"] else FAINT
        axis.errorbar([one["value"]], [place], xerr=ends, fmt="o", markersize=4, color=color, linewidth=1.2)
    axis.set_yticks(range(len(parts)), [f"{one['column']}={one['slice']}"[:28] for one in parts], fontsize=8)
    axis.grid(axis="x", color="#eeeeee")


def _matrix(axis: Axes, told: Mapping[str, int], threshold: float) -> None:
    cells = [[told["tn"], told["fp"]], [told["fn"], told["tp"]]]
    axis.imshow([[1, 0], [0, 1]], cmap="Blues", vmin=0, vmax=4)
    for row in (0, 1):
        for column in (0, 1):
            axis.text(column, row, f"{cells[row][column]:,}", ha="center", va="center")
    axis.set_xticks([0, 1], ["says no", "says yes"])
    axis.set_yticks([0, 1], ["is no", "is yes"])
    axis.set_title(f"Confusion at {threshold:.3f}")
