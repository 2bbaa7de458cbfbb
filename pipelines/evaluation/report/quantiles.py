"""Draw how well a regression predicts quantiles: shares of labels below them, and coverage of the widest interval.

"Below" a quantile includes labels that equal the predicted value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pipelines.evaluation.gates.estimates import find_groups, has_too_few_groups
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.statistics import bootstrap
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.regression import build_share_below_metric
from pipelines.evaluation.statistics.weighted import Metric, compute_metric
from pipelines.evaluation.weeks import find_weeks
from pipelines.pages.drawing import CANDIDATE_COLOR, CHAMPION_COLOR, REFERENCE_COLOR, Axes, plt

SHARE_BELOW = Metric(build_share_below_metric, greater_is_better=None, task="regression", is_share=True)
"""Share of labels below one predicted quantile."""


def estimate_shares_below(holdout: Holdout, policy: Policy) -> dict[float, Estimate]:
    """Estimate the share of labels below each of the candidate's quantiles, with the gate's method for metrics.

    Returns:
        Each quantile with its estimate, ascending; empty if the candidate predicts none. With too few groups, both
        ends of the interval equal the value.
    """
    groups = find_groups(holdout, policy) if holdout.candidate_quantiles else None
    # Each end of the interval has half of alpha, so the confidence of the drawn interval is 1 - alpha.
    options: dict[str, Any] = {"alpha": policy.alpha / 2, "seed": policy.seed, "draws": policy.draws, "groups": groups}
    estimates = {}
    for name, values in holdout.candidate_quantiles.items():
        columns = values[:, np.newaxis]
        if has_too_few_groups(groups, policy):
            share = compute_metric(holdout.label, columns, SHARE_BELOW)
            estimates[float(name)] = Estimate(share, share, share, 0.0, len(values))
        else:
            estimates[float(name)] = bootstrap.estimate_metric(holdout.label, columns, SHARE_BELOW, **options)
    return estimates


def draw_quantiles(holdout: Holdout, shares_below: Mapping[float, Estimate]) -> Any:
    """Draw the shares of labels below the quantiles, and the coverage of the widest interval by week."""
    figure, (share_axis, week_axis) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    share_axis.plot([0, 1], [0, 1], color=REFERENCE_COLOR, linestyle="--", linewidth=1)
    if holdout.champion_quantiles:
        shares = [float((holdout.label <= values).mean()) for values in holdout.champion_quantiles.values()]
        levels = [float(name) for name in holdout.champion_quantiles]
        share_axis.plot(levels, shares, color=CHAMPION_COLOR, marker="s", markersize=4, label="champion")
    estimates = list(shares_below.values())
    distances = np.array([[estimate.value - estimate.low, estimate.high - estimate.value] for estimate in estimates]).T
    values = [estimate.value for estimate in estimates]
    share_axis.errorbar(
        list(shares_below), values, yerr=distances, color=CANDIDATE_COLOR, marker="o", markersize=4, label="candidate"
    )
    share_axis.set(xlabel="quantile", ylabel="share of labels below it", title="Quantiles", xlim=(0, 1), ylim=(0, 1))
    share_axis.legend(loc="upper left", frameon=False)
    _draw_coverage_by_week(week_axis, holdout)
    return figure


def _draw_coverage_by_week(axis: Axes, holdout: Holdout) -> None:
    names = list(holdout.candidate_quantiles)
    low, high = (holdout.candidate_quantiles[name] for name in (names[0], names[-1]))
    coverage = _compute_by_week(holdout, (low <= holdout.label) & (holdout.label <= high))
    axis.axhline(float(names[-1]) - float(names[0]), color=REFERENCE_COLOR, linestyle="--", linewidth=1)
    axis.plot(list(coverage), list(coverage.values()), color=CANDIDATE_COLOR, marker="o", markersize=4)
    axis.tick_params(axis="x", rotation=45, labelsize=8)
    axis.set(ylim=(0, 1.02), title=f"Candidate: share of labels from quantile {names[0]} to {names[-1]}, by week")


def _compute_by_week(holdout: Holdout, is_covered: Array) -> dict[str, float]:
    weeks = find_weeks(holdout.get_column("date")).to_numpy()
    return {str(week): float(value) for week, value in pd.Series(is_covered).groupby(weeks).mean().items()}
