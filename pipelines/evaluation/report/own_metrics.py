"""Draw the metrics of a dataset's metrics.py by week and by slice of the policy, with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.errors import DataError
from pipelines.evaluation.gates.estimates import estimate_metric
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.holdout_parts import MIN_WEEK_GROUPS
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.weeks import find_weeks
from pipelines.pages.drawing import CANDIDATE_COLOR, REFERENCE_COLOR, Axes, plt

MAX_METRICS, MAX_SLICES = 6, 12
"""Largest numbers of drawn metrics (the first ones) and of drawn slices (those with the most rows)."""
Parts = dict[str, Estimate]
"""Maps the name of each part to its estimate."""


@dataclass(frozen=True)
class MetricParts:
    """A metric of the candidate on the whole holdout and on its parts. Parts on which it has no value are left out."""

    overall: Estimate
    """Estimate on the whole holdout."""
    weeks: Parts
    """Estimates on the weeks of the holdout, by their first days."""
    slices: Parts
    """Estimates on the slices of the policy, by their names, such as `origin=JFK`."""


def estimate_own_metrics(holdout: Holdout, policy: Policy) -> dict[str, MetricParts]:
    """Estimate the first `MAX_METRICS` of the dataset's metrics on the holdout, its weeks, and the largest slices."""
    # A week has at most seven days, perhaps fewer than the policy requires. Its interval is wide, but only reported.
    part_policy = policy.model_copy(update={"min_groups": min(policy.min_groups, MIN_WEEK_GROUPS)})
    weeks = _split_by_value(find_weeks(holdout.get_column("date")).to_numpy()) if "date" in holdout.features else {}
    slices = dict(_list_slices(holdout, policy))
    return {
        name: MetricParts(
            estimate_metric(holdout, name, policy),
            dict(_estimate_parts(holdout, name, weeks, part_policy)),
            dict(_estimate_parts(holdout, name, slices, part_policy)),
        )
        for name in list(holdout.own_metrics)[:MAX_METRICS]
    }


def draw_own_metrics(metrics: Mapping[str, MetricParts]) -> Any:
    """Draw two charts for each metric: weeks left, slices right. The grey band is the interval of the whole holdout."""
    figure, axes = plt.subplots(
        len(metrics), 2, figsize=(11, 0.6 + 3.2 * len(metrics)), layout="constrained", squeeze=False
    )
    for (week_axis, slice_axis), (name, parts) in zip(axes, metrics.items(), strict=True):
        _draw_parts(week_axis, parts.weeks, parts.overall, f"{name} by week")
        _draw_parts(slice_axis, parts.slices, parts.overall, f"{name} by slice")
    return figure


def _split_by_value(values: Array) -> dict[str, Array]:
    """Return the mask of the rows of each value."""
    return {str(value): values == value for value in np.unique(values)}


def _list_slices(holdout: Holdout, policy: Policy) -> Iterator[tuple[str, Array]]:
    """Yield the names of the largest slices and the masks of their rows, sorted by name."""
    columns = policy.slices.columns if policy.slices else []
    masks = {
        f"{column}={value}": (holdout.get_column(column) == value).to_numpy(dtype=bool)
        for column in columns
        for value in holdout.get_column(column).dropna().unique()
    }
    largest_names = sorted(masks, key=lambda name: (-masks[name].sum(), name))[:MAX_SLICES]
    yield from ((name, masks[name]) for name in sorted(largest_names))


def _estimate_parts(
    holdout: Holdout, metric: str, masks: Mapping[str, Array], policy: Policy
) -> Iterator[tuple[str, Estimate]]:
    for name, mask in masks.items():
        try:
            part = replace(
                holdout,
                label=holdout.label[mask],
                candidate_score=holdout.candidate_score[mask],
                champion_score=None,
                features=holdout.features[mask],
                candidate_quantiles={},
                champion_quantiles={},
            )
            estimate = estimate_metric(part, metric, policy)
        except (DataError, ValueError, ArithmeticError):
            # All labels of the part may be equal, or the user's function may raise an error for another reason.
            continue
        if np.isfinite(estimate.value):
            yield name, estimate


def _draw_parts(axis: Axes, parts: Parts, overall: Estimate, title: str) -> None:
    axis.set_title(title)
    if np.isfinite([overall.low, overall.high]).all():
        axis.axhspan(overall.low, overall.high, color=REFERENCE_COLOR, alpha=0.18, linewidth=0)
    axis.axhline(overall.value, color=REFERENCE_COLOR, linestyle="--", linewidth=1)
    for position, estimate in enumerate(parts.values()):
        distances = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
        has_interval = np.isfinite(distances).all()
        axis.errorbar(
            [position],
            [estimate.value],
            yerr=distances if has_interval else None,
            fmt="o",
            color=CANDIDATE_COLOR,
            markersize=4,
        )
    axis.set_xticks(range(len(parts)), [name[:24] for name in parts], rotation=45, ha="right", fontsize=8)
    axis.grid(axis="y", color="#eeeeee")
