"""Draw the charts of a tuning: the history, the losses by round, the parallel coordinates, and the importance."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from pipelines.pages.drawing import CANDIDATE_COLOR, CHAMPION_COLOR, REFERENCE_COLOR, Axes, plt, save_figure
from pipelines.tuning.report.results import TuningResult
from pipelines.tuning.space import Range

STATE_COLORS = {"complete": CANDIDATE_COLOR, "pruned": REFERENCE_COLOR, "stopped": "#d9a400", "failed": "#c4281c"}
MAX_CURVES = 200
"""Largest number of trials whose losses are drawn by round: the newest trials are drawn."""
TICKS = 5
"""Number of ticks on the axis of a range."""


def draw_figures(folder: Path, result: TuningResult, importance: Mapping[str, float]) -> list[Path]:
    """Draw each chart for which there are values into a PNG file of a folder; return the paths of the files."""
    paths = [draw_history(folder / "history.png", result), draw_parallel(folder / "parallel.png", result)]
    if any(trial.rounds for trial in result.trials):
        paths.append(draw_rounds(folder / "rounds.png", result))
    return [*paths, draw_importance(folder / "importance.png", importance)] if importance else paths


def draw_history(path: Path, result: TuningResult) -> Path:
    """Draw the objective of each trial, and the best so far."""
    figure, axis = _create_axes(f"Mean {result.winner.metric} of the folds, by trial", (8.5, 4.2))
    for state in ("stopped", "pruned", "complete"):
        points = [
            (trial.number, trial.loss) for trial in result.trials if trial.state == state and trial.loss is not None
        ]
        if points:
            numbers, losses = zip(*points, strict=True)
            marker, size = ("o", 28) if state == "complete" else ("x", 24)
            label = f"{state} ({len(points)})"
            axis.scatter(numbers, losses, s=size, c=STATE_COLORS[state], marker=marker, label=label, zorder=3)
    completed_trials = [trial for trial in result.trials if trial.objective is not None]
    best_objectives = list(itertools.accumulate((float(trial.objective or 0) for trial in completed_trials), min))
    axis.step(
        [trial.number for trial in completed_trials],
        best_objectives,
        where="post",
        color=CHAMPION_COLOR,
        linewidth=1.8,
        label="best so far",
    )
    _limit_vertical_axis(axis, [trial.loss for trial in result.trials if trial.loss is not None])
    axis.set_xlabel("trial")
    axis.set_ylabel(result.winner.metric)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(frameon=False, fontsize=9)
    return save_figure(path, figure)


def draw_rounds(path: Path, result: TuningResult) -> Path:
    """Draw the objective of each trial by round; the curves of pruned and stopped trials end with a cross."""
    figure, axis = _create_axes(f"Mean {result.winner.metric} of the folds, by round", (8.5, 4.2))
    trials = [trial for trial in result.trials if trial.rounds][-MAX_CURVES:]
    for trial in trials:
        is_best = trial.number == result.winner.number
        style: dict[str, Any] = {"color": STATE_COLORS[trial.state], "linewidth": 0.8, "alpha": 0.6}
        if is_best:
            style = {"color": CHAMPION_COLOR, "linewidth": 2.2, "zorder": 4, "label": f"winner, trial {trial.number}"}
        axis.plot(list(trial.rounds), list(trial.rounds.values()), **style)
        if trial.state in {"pruned", "stopped"}:
            last = max(trial.rounds)
            axis.plot(last, trial.rounds[last], "x", color=STATE_COLORS[trial.state], markersize=5)
    _limit_vertical_axis(axis, [value for trial in trials for value in trial.rounds.values()])
    axis.set_xlabel("round")
    axis.set_ylabel(result.winner.metric)
    if result.winner.rounds:  # the log of a SageMaker trial may be gone
        axis.legend(frameon=False, fontsize=9)
    return save_figure(path, figure)


def draw_parallel(path: Path, result: TuningResult) -> Path:
    """Draw each completed trial as a line through its values; the darker, the lower its objective."""
    space = result.plan.space
    trials = sorted(
        (trial for trial in result.trials if trial.objective is not None),
        key=lambda trial: -float(trial.objective or 0),
    )
    figure, axis = _create_axes("Values of the completed trials", (max(6.5, 1.7 * len(space) + 2.2), 4.4))
    scales = [_build_scale(item) for item in space.values()]
    for rank, trial in enumerate(trials):
        heights = [get_height(trial.parameters[name]) for (get_height, _), name in zip(scales, space, strict=True)]
        darkness = (rank + 1) / len(trials)
        is_best = trial.number == result.winner.number
        color = CHAMPION_COLOR if is_best else plt.get_cmap("Blues")(0.2 + 0.75 * darkness)
        axis.plot(range(len(space)), heights, color=color, linewidth=2.4 if is_best else 1.1, zorder=rank + 2)
    for position, (_, ticks) in enumerate(scales):
        axis.axvline(position, color="#bbbbbb", linewidth=1, zorder=1)
        for height, text in ticks:
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8}
            position_style: dict[str, Any] = {
                "xytext": (5, 0),
                "textcoords": "offset points",
                "va": "center",
                "zorder": 999,  # above the line of each trial
            }
            axis.annotate(text, (position, height), fontsize=8, bbox=box, **position_style)
    axis.set_xticks(range(len(space)), list(space))
    axis.set_yticks([])
    axis.set_ylim(-0.05, 1.05)
    axis.set_xlim(-0.2, len(space) - 0.55)
    axis.spines[["left", "bottom"]].set_visible(False)
    return save_figure(path, figure)


def draw_importance(path: Path, importance: Mapping[str, float]) -> Path:
    """Draw the share of each hyperparameter in the variance of the objective."""
    figure, axis = _create_axes("Share of the objective's variance", (7.5, 0.5 * len(importance) + 1.3))
    names = list(importance)[::-1]
    bars = axis.barh(names, [importance[name] for name in names], color=CANDIDATE_COLOR, height=0.6)
    axis.bar_label(bars, fmt="%.2f", padding=3, fontsize=9)
    axis.set_xlim(0, 1.1 * max(importance.values()))
    axis.xaxis.grid(False)
    return save_figure(path, figure)


def _create_axes(title: str, size: tuple[float, float]) -> tuple[Any, Axes]:
    """Create a figure with one pair of axes; `size` is its width and height, inches."""
    figure, axis = plt.subplots(figsize=size, layout="constrained")
    axis.set_title(title, fontsize=11, loc="left")
    axis.spines[["top", "right"]].set_visible(False)
    axis.yaxis.grid(True, color="#eeeeee")
    axis.set_axisbelow(True)
    return figure, axis


def _limit_vertical_axis(axis: Axes, values: Sequence[float]) -> None:
    """Limit the vertical axis to the lower nine tenths of the values, so that one poor trial does not hide the rest."""
    finite_values = [value for value in values if math.isfinite(value)]
    low, high = min(finite_values), float(np.quantile(finite_values, 0.9))
    if high > low:
        axis.set_ylim(low - 0.08 * (high - low), high + 0.3 * (high - low))


def _build_scale(item: Range | list[Any]) -> tuple[Any, list[tuple[float, str]]]:
    """Return the function that computes the height of a value, from 0 to 1, and the height and text of each tick."""
    if not isinstance(item, Range):
        heights = {value: index / (len(item) - 1) for index, value in enumerate(item)}
        return heights.__getitem__, [(height, str(value)) for value, height in heights.items()]
    convert = math.log if item.log else float
    low, high = convert(item.low), convert(item.high)
    positions = [low + (high - low) * number / (TICKS - 1) for number in range(TICKS)]
    ticks = [math.exp(position) if item.log else position for position in positions]
    if item.type == "int":
        ticks = [float(value) for value in sorted({round(tick) for tick in ticks})]
    labels = [((convert(tick) - low) / (high - low), f"{tick:.3g}") for tick in ticks]
    return lambda value: (convert(value) - low) / (high - low), labels
