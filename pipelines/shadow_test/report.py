"""Write the report about a shadow: an HTML page with the checks, and charts of the scores of both versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.evaluation.gates.verdict import Check
from pipelines.evaluation.statistics.inputs import Array
from pipelines.pages.drawing import CANDIDATE_COLOR, CHAMPION_COLOR, REFERENCE_COLOR, Axes, plt, save_figure
from pipelines.pages.page import write_page
from pipelines.shadow_test.pairs import Scores
from pipelines.system.files import replace_folder

PAGE = "shadow.html"
"""Name of the page, and of its template."""
BINS = 30
"""Number of bars of a histogram."""
MAX_POINTS = 5_000
"""Largest number of rows in the chart that compares single rows. Of more rows, only the first are drawn."""
SIGNS = {"passed": "✓", "failed": "✗", "undecided": "?", "reported": "·"}
"""Maps the outcome of a check to its sign on the page."""


def write_report(
    folder: Path,
    scores: tuple[Scores, Scores] | None,
    versions: tuple[str, str],
    checks: Sequence[Check],
    **values: Any,
) -> Path:
    """Write the page to the folder, replacing what was there; return the path of the page.

    Args:
        folder: folder to write.
        scores: scores of the champion and of the challenger, of the same rows; None if no request was compared.
        versions: numbers of the champion and of the challenger.
        checks: the checks.
        **values: other variables of the template: outcome, reason, title and facts.
    """
    with replace_folder(folder) as temporary:
        pictures = [save_figure(temporary / "scores.png", _draw_scores(scores, versions))] if scores else []
        write_page(temporary / PAGE, PAGE, pictures, checks=checks, signs=SIGNS, **values)
    return folder / PAGE


def _draw_scores(scores: tuple[Scores, Scores], versions: tuple[str, str]) -> Any:
    figure, (score_axis, pair_axis) = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
    names = (f"version {versions[0]} (serves)", f"version {versions[1]} (shadow)")
    champion, challenger = scores
    # Of a multiclass model, the scores are a frame with a column for each class.
    if isinstance(champion, pd.DataFrame) and isinstance(challenger, pd.DataFrame):
        _draw_classes(score_axis, champion, challenger, names)
        champion, challenger = (frame.to_numpy().max(axis=1) for frame in (champion, challenger))
        label = "probability of the predicted class"
    else:
        _draw_histograms(score_axis, np.asarray(champion), np.asarray(challenger), names)
        label = "score"
    _draw_points(pair_axis, np.asarray(champion), np.asarray(challenger), {"x": f"{label}, {names[0]}", "y": names[1]})
    for axis in (score_axis, pair_axis):
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_histograms(axis: Axes, champion: Array, challenger: Array, names: tuple[str, str]) -> None:
    edges = np.histogram_bin_edges(np.concatenate([champion, challenger]), BINS).tolist()
    for values, name, color in zip((champion, challenger), names, (CHAMPION_COLOR, CANDIDATE_COLOR), strict=True):
        weights = np.full(len(values), 1 / len(values))
        axis.hist(values, edges, weights=weights, color=color, histtype="stepfilled", alpha=0.45, label=name)
    axis.set_title("Scores of the same rows", loc="left", fontsize=11)
    axis.set_xlabel("score")
    axis.set_ylabel("share of rows")
    axis.legend(frameon=False)


def _draw_classes(axis: Axes, champion: pd.DataFrame, challenger: pd.DataFrame, names: tuple[str, str]) -> None:
    positions = np.arange(champion.shape[1])
    for probabilities, name, color, shift in zip(
        (champion, challenger), names, (CHAMPION_COLOR, CANDIDATE_COLOR), (-0.2, 0.2), strict=True
    ):
        counts = np.bincount(probabilities.to_numpy().argmax(axis=1), minlength=len(positions))
        axis.bar(positions + shift, counts / len(probabilities), 0.4, color=color, label=name)
    axis.set_xticks(positions, [str(class_name)[:32] for class_name in champion], rotation=30, ha="right")
    axis.set_title("Predicted classes of the same rows", loc="left", fontsize=11)
    axis.set_ylabel("share of rows")
    axis.legend(frameon=False)


def _draw_points(axis: Axes, champion: Array, challenger: Array, labels: Mapping[str, str]) -> None:
    x, y = champion[:MAX_POINTS], challenger[:MAX_POINTS]
    limits = [min(x.min(), y.min()), max(x.max(), y.max())]
    axis.plot(limits, limits, color=REFERENCE_COLOR, linewidth=1)
    axis.plot(x, y, ".", color=CANDIDATE_COLOR, markersize=3, alpha=0.4)
    axis.set_title("Each row: the scores of both versions", loc="left", fontsize=11)
    axis.set_xlabel(labels["x"])
    axis.set_ylabel(labels["y"])
