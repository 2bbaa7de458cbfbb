"""Compare how often two classifiers are right: McNemar's test for independent rows, and for groups of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binomtest, t

from pipelines.evaluation.statistics import edges
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.groups import estimate_by_groups, number_groups
from pipelines.evaluation.statistics.inputs import Array, validate_alpha, validate_rows
from pipelines.evaluation.statistics.sums import build_mean_metric


@dataclass(frozen=True)
class McNemarResult:
    """Result of McNemar's test of two classifiers on the same rows."""

    candidate_only: int
    """Rows on which only the candidate is right."""
    champion_only: int
    """Rows on which only the champion is right."""
    p_value: float
    """Two-sided p-value of the hypothesis that both are right equally often."""
    rows: int
    """Number of rows."""
    gain: Estimate
    """Share of rows on which the candidate is right, minus the champion's share."""


def run_mcnemar_test(
    label: Array,
    candidate: Array,
    champion: Array,
    threshold: float,
    *,
    alpha: float = 0.05,
    groups: Array | None = None,
) -> McNemarResult:
    """Test whether two models are right equally often at a threshold (McNemar 1947, Psychometrika 12).

    For independent rows, the p-value is that of the exact binomial test of the rows on which only one model is right,
    and is 1 without such rows. The interval of `gain` comes from exact bounds of two shares, each at alpha / 2, so
    the error probability of each end is at most alpha. The interval excludes 0 if the p-value is below alpha.

    With groups, p-value and interval are computed by groups, as for any metric (Obuchowski 1998, Statistics in Medicine
    17). The interval is then never narrower, and the p-value never smaller, than for independent rows. If both models
    are right on the same rows, groups are not used.

    Args:
        label: shape (rows,), 0 or 1, both present.
        candidate: shape (rows,), finite scores.
        champion: shape (rows,), finite scores.
        threshold: a row with this score or a higher one is predicted as 1.
        alpha: error probability of each end of the gain's interval; see `Estimate`.
        groups: shape (rows,). Rows with the same value are related; values are in order of time. None: no groups.

    Raises:
        DataError: the rows are not valid, or there are fewer than two groups. A retry cannot help.
        SpecError: alpha is not between 0 and 0.5. A retry cannot help.
    """
    truth, scores = validate_rows(label, candidate, champion)
    is_candidate_right, is_champion_right = ((score >= threshold) == truth for score in scores)
    counts = int((is_candidate_right & ~is_champion_right).sum()), int((is_champion_right & ~is_candidate_right).sum())
    gain = _estimate_gain(*counts, len(truth), validate_alpha(alpha), is_same=np.array_equal(scores[0], scores[1]))
    result = McNemarResult(*counts, _compute_exact_p_value(*counts), len(truth), gain)
    if groups is None or not sum(counts):
        return result
    metric = build_mean_metric(is_candidate_right.astype(np.float64) - is_champion_right)
    return _widen_by_groups(result, estimate_by_groups([metric], number_groups(groups, len(truth)), alpha))


def _compute_exact_p_value(candidate_only: int, champion_only: int) -> float:
    """Compute the p-value of the exact binomial test; 1 without rows on which only one model is right."""
    rows = candidate_only + champion_only
    return float(binomtest(candidate_only, rows).pvalue) if rows else 1.0


def _widen_by_groups(result: McNemarResult, gain: Estimate) -> McNemarResult:
    """Return the result with the gain by groups, whose interval and p-value are no smaller than for independent rows.

    With few rows on which the models differ, the interval by groups alone would be too narrow.
    """
    p_value = float(2 * t.sf(abs(gain.value) / gain.se, gain.degrees_of_freedom)) if gain.se else 0.0
    wider_gain = replace(gain, low=min(gain.low, result.gain.low), high=max(gain.high, result.gain.high))
    return replace(result, p_value=max(result.p_value, p_value), gain=wider_gain)


def _estimate_gain(candidate_only: int, champion_only: int, rows: int, alpha: float, *, is_same: bool) -> Estimate:
    """Estimate (candidate_only - champion_only) / rows from exact bounds of two shares, each at alpha / 2.

    The first is the share of rows on which only one model is right. The second is the share of these rows on which
    the candidate is right. `is_same` means that both models have the same scores: the gain is then exactly 0.
    """
    differing_rows = candidate_only + champion_only
    value = (candidate_only - champion_only) / rows
    se = float(np.sqrt(differing_rows / rows - value**2) / np.sqrt(rows))
    if is_same:
        return Estimate(0.0, 0.0, 0.0, 0.0, rows)
    low_share, high_share = edges.bound_share(differing_rows / rows, rows, alpha / 2)
    low_right_share, high_right_share = (
        edges.bound_share(candidate_only / differing_rows, differing_rows, alpha / 2) if differing_rows else (0.0, 1.0)
    )
    ends = [
        (2 * right_share - 1) * differing_share
        for right_share in (low_right_share, high_right_share)
        for differing_share in (low_share, high_share)
    ]
    return Estimate(value, min(ends[:2]), max(ends[2:]), se, rows)
