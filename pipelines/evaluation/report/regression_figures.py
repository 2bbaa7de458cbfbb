"""Draw the pictures of the evaluation report that only a regression has."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.regression import draw_reliability, draw_residuals, tabulate_residuals, tabulate_weeks
from pipelines.pages.drawing import CANDIDATE_COLOR, CHAMPION_COLOR, REFERENCE_COLOR, Axes, plt

SHOWN_SHARE = 0.99
"""Share of the labels and scores that the axes show. With the few extreme values, no difference between the others
could be seen."""


def draw_predictions(holdout: Holdout) -> Any:
    """Draw observed against predicted values, and the residuals of candidate and champion."""
    figure, (value_axis, residual_axis) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    _draw_values(value_axis, holdout.label, holdout.candidate_score)
    value_axis.set_title("Candidate: observed against predicted")
    for score, color in ((holdout.champion_score, CHAMPION_COLOR), (holdout.candidate_score, CANDIDATE_COLOR)):
        if score is not None:
            draw_residuals(residual_axis, tabulate_residuals(holdout.label, score), color)
    residual_axis.set_title("Residuals by tenth of the rows, sorted by prediction")
    return figure


def draw_reliability_of_models(axis: Axes, holdout: Holdout) -> None:
    """Draw the reliability of both models: mean label by mean score of each bin."""
    scores = [
        (holdout.champion_score, "champion", CHAMPION_COLOR),
        (holdout.candidate_score, "candidate", CANDIDATE_COLOR),
    ]
    for score, name, color in scores:
        if score is not None:
            draw_reliability(axis, tabulate_residuals(holdout.label, score), name, color)
    axis.set_title("Reliability")


def draw_errors_by_week(axis: Axes, holdout: Holdout) -> None:
    """Draw the candidate's mean absolute error and bias by week."""
    weeks = tabulate_weeks(holdout.label, holdout.candidate_score, holdout.get_column("date"))
    axis.axhline(0.0, color=REFERENCE_COLOR, linestyle="--", linewidth=1)
    axis.plot(weeks["week"], weeks["mae"], color=CANDIDATE_COLOR, marker="o", markersize=4, label="MAE")
    axis.plot(weeks["week"], weeks["bias"], color=CHAMPION_COLOR, marker="s", markersize=4, label="bias")
    axis.tick_params(axis="x", rotation=45, labelsize=8)
    axis.set_title("Candidate's errors by week")
    axis.legend(frameon=False)


def _draw_values(axis: Axes, label: Array, score: Array) -> None:
    low, high = np.quantile(np.concatenate([label, score]), ((1 - SHOWN_SHARE) / 2, (1 + SHOWN_SHARE) / 2))
    is_shown = (label >= low) & (label <= high) & (score >= low) & (score <= high)
    axis.hexbin(score[is_shown], label[is_shown], gridsize=40, cmap="Blues", bins="log", mincnt=1)
    axis.plot([low, high], [low, high], color=REFERENCE_COLOR, linestyle="--", linewidth=1)
    axis.set(xlabel=f"predicted ({SHOWN_SHARE:.0%} of the values)", ylabel="observed")
