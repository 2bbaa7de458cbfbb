"""Check how well the scores of two versions agree on the same rows, and whether their distributions differ."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from pipelines.dataset import Task
from pipelines.evaluation.gates.verdict import FAILED, PASSED, UNDECIDED, Check
from pipelines.evaluation.statistics.edges import bound_share
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.inputs import Array
from pipelines.monitoring.drift.columns import examine_column
from pipelines.monitoring.drift.counts import ComparedColumn, Counts
from pipelines.shadow_test.estimate_check import check_lower_bound, check_upper_bound
from pipelines.shadow_test.limits import ShadowLimits
from pipelines.shadow_test.pairs import Scores

BINS = 10
"""Number of bins between the smallest and the largest score of the champion. Each bin has equally many of
the champion's rows."""


def check_agreement(task: Task, champion: Scores, challenger: Scores, limits: ShadowLimits) -> Check:
    """Check how often both versions decide the same, or how far their scores are apart.

    Args:
        task: what the models predict.
        champion: the champion's scores, at least one row.
        challenger: the challenger's scores of the same rows.
        limits: the limits. If section `shadow` sets no threshold, the caller has added the gate's, if there is one.
    """
    if isinstance(champion, pd.DataFrame) and isinstance(challenger, pd.DataFrame):
        is_same = champion.to_numpy().argmax(axis=1) == challenger.to_numpy().argmax(axis=1)
        return _check_share("share of rows with the same class", is_same, limits)
    if task == "binary" and limits.threshold is not None:
        is_same = (np.asarray(champion) >= limits.threshold) == (np.asarray(challenger) >= limits.threshold)
        return _check_share(f"share of rows on the same side of {limits.threshold:g}", is_same, limits)
    differences = np.abs(np.asarray(challenger) - np.asarray(champion))
    if task == "binary":
        return _check_mean("mean difference of the scores", differences, limits.max_score_difference, limits)
    spread = float(np.std(champion)) or 1.0  # the champion may give every row the same number
    name = "mean difference of the numbers, in standard deviations"
    return _check_mean(name, differences / spread, limits.max_relative_difference, limits)


def check_drift(champion: Scores, challenger: Scores, limits: ShadowLimits) -> Check:
    """Check whether the distribution of the scores differs, as the step `drift` does: by effect and p-value.

    The outcome is `undecided` if the effect is above `limits.max_psi`, but not significant.

    The p-value is computed as for two independent samples. Here both samples are of the same rows, so the p-value tends
    to be too large.
    """
    name = "drift of the scores (PSI)"
    findings = {finding.measure: finding for finding in examine_column(count_scores(champion, challenger))}
    effect, p_value = findings["psi"].effect, findings["psi"].p_value
    assert effect is not None and p_value is not None, "both samples have rows"
    is_over, is_significant = effect > limits.max_psi, p_value < limits.alpha
    outcome = PASSED if not is_over else FAILED if is_significant else UNDECIDED
    if outcome == UNDECIDED:
        requirement = f"which is above {limits.max_psi:g}, but not significant at {limits.alpha:g}"
    else:
        requirement = f"{'as required:' if outcome == PASSED else 'but must be'} at most {limits.max_psi:g}"
    ks = f", KS distance {findings['ks'].effect:.3g}" if "ks" in findings else ""
    reason = f"{name} is {effect:.4g} (p = {p_value:.3g}{ks}), {requirement}"
    return Check(name=name, value=effect, bound=limits.max_psi, outcome=outcome, reason=reason)  # type: ignore[arg-type]


def count_scores(champion: Scores, challenger: Scores) -> ComparedColumn:
    """Count the scores of both versions in bins of the champion's scores; or, if multiclass, the predicted classes."""
    if isinstance(champion, pd.DataFrame) and isinstance(challenger, pd.DataFrame):
        # The last bin counts unseen values, and there are none.
        counts = (
            Counts(np.append(np.bincount(frame.to_numpy().argmax(axis=1), minlength=frame.shape[1]), 0))
            for frame in (champion, challenger)
        )
        return ComparedColumn("score", "category", next(counts), next(counts))
    edges = np.unique(np.quantile(champion, np.linspace(0, 1, BINS + 1)))
    return ComparedColumn("score", "numeric", _count(edges, champion), _count(edges, challenger), edges)


def _count(edges: Array, scores: Scores) -> Counts:
    return Counts(np.bincount(np.searchsorted(edges, scores, side="left"), minlength=len(edges) + 1))


def _check_share(name: str, is_same: Array, limits: ShadowLimits) -> Check:
    share, rows = float(is_same.mean()), len(is_same)
    low, high = bound_share(share, rows, limits.alpha)
    return check_lower_bound(name, Estimate(share, low, high, se=0.0, rows=rows), limits.min_agreement, "rows")


def _check_mean(name: str, differences: Array, bound: float, limits: ShadowLimits) -> Check:
    rows = len(differences)
    standard_error = float(np.std(differences, ddof=1)) / math.sqrt(rows) if rows > 1 else math.inf
    mean = float(differences.mean())
    estimate = Estimate.from_standard_error(mean, standard_error, rows, limits.alpha, lowest=0.0, highest=math.inf)
    return check_upper_bound(name, estimate, bound, "rows")
