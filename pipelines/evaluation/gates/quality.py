"""Check how good a candidate is: against bounds, against trivial models, against the champion."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.evaluation.gates.checks import check_estimate, check_value
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.policy import Comparison, Metric, Policy
from pipelines.evaluation.gates.verdict import FAILED, PASSED, Check
from pipelines.evaluation.statistics import bootstrap, delong
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import run_mcnemar_test
from pipelines.evaluation.statistics.weighted import METRICS


def check_bounds(holdout: Holdout, policy: Policy) -> list[Check]:
    """Check the candidate's metrics, with their intervals, against `policy.bounds`."""
    checks = []
    for name, bound in policy.bounds.items():
        estimate = _estimate_metric(holdout, name, policy)
        if bound.at_least is not None:
            checks.append(check_estimate(name, estimate, bound.at_least, policy))
        if bound.at_most is not None:
            title = f"{name}, leakage" if METRICS[name].greater_is_better else name
            checks.append(check_estimate(title, estimate, bound.at_most, policy, is_upper=True))
    return checks


def check_against_baselines(holdout: Holdout, policy: Policy) -> list[Check]:
    """Check that the candidate beats two models without features.

    One gives every row the label's rate in the training days, the other the rate in the last week of these days.
    """
    rates = {
        "the label's rate in training": holdout.base_rate,
        "the label's rate in the last week of training": holdout.last_week_rate,
    }
    return [
        check_estimate(
            f"{metric} against {name}",
            _estimate_gain(holdout, np.full(len(holdout.label), rate), Comparison(metric=metric), policy),
            0.0,
            policy,
            is_strict=True,
        )
        for metric in policy.baseline
        for name, rate in rates.items()
    ]


def check_against_champion(holdout: Holdout, policy: Policy) -> list[Check]:
    """Compare the candidate with the champion as the policy says; make no checks where there is no champion."""
    champion_score, threshold = holdout.champion_score, policy.threshold
    if champion_score is None:
        return []
    checks = [
        check_estimate(
            f"{comparison.metric} against the champion's",
            _estimate_gain(holdout, champion_score, comparison, policy),
            -comparison.margin,
            policy,
            is_strict=comparison.margin == 0,
            relevant_effect=comparison.relevant_gain,
        )
        for comparison in policy.champion
    ]
    if threshold is not None:
        checks.append(_check_at_threshold(holdout, champion_score, threshold, policy.alpha))
    return checks


def check_recency(days_newer: int | None) -> list[Check]:
    """Check that the candidate's window is not older than the champion's; no check where there is no champion."""
    name = "days that the window is newer than the champion's"
    return [] if days_newer is None else [check_value(name, days_newer, at_least=0)]


def _estimate_metric(holdout: Holdout, metric: Metric, policy: Policy) -> Estimate:
    """Estimate a metric of the candidate: DeLong for auc of independent rows, else the bootstrap."""
    if metric == "auc" and not policy.draw_by:
        return delong.estimate_auc(holdout.label, holdout.candidate_score, alpha=policy.alpha)
    return bootstrap.estimate_metric(
        holdout.label, holdout.candidate_score, metric, **_build_sampling_options(holdout, policy)
    )


def _estimate_gain(holdout: Holdout, other_score: Array, comparison: Comparison, policy: Policy) -> Estimate:
    """Estimate how much better the candidate is than another model: positive is better, whatever the metric."""
    label, score = holdout.label, holdout.candidate_score
    if comparison.metric == "auc" and not policy.draw_by and comparison.test != "bootstrap":
        return delong.estimate_auc_difference(label, score, other_score, alpha=policy.alpha)
    sampling = _build_sampling_options(holdout, policy)
    difference = bootstrap.estimate_difference(label, score, other_score, comparison.metric, **sampling)
    return difference if METRICS[comparison.metric].greater_is_better else -difference


def _build_sampling_options(holdout: Holdout, policy: Policy) -> dict[str, Any]:
    groups = holdout.get_column(policy.draw_by).astype(str).to_numpy() if policy.draw_by else None
    return {"alpha": policy.alpha, "draws": policy.draws, "seed": policy.seed, "groups": groups}


def _check_at_threshold(holdout: Holdout, champion_score: Array, threshold: float, alpha: float) -> Check:
    """Make a check that fails if the champion is significantly more often right at the threshold (McNemar's test)."""
    result = run_mcnemar_test(holdout.label, holdout.candidate_score, champion_score, threshold)
    is_worse = result.champion_only > result.candidate_only and result.p_value < alpha
    return Check(
        name=f"rows that only the candidate predicts correctly at {threshold:g}",
        value=result.candidate_only,
        bound=result.champion_only,
        outcome=FAILED if is_worse else PASSED,
        reason=(
            f"at the threshold {threshold:g}, only the candidate is right on {result.candidate_only} rows, only the "
            f"champion on {result.champion_only} (McNemar, p = {result.p_value:.3g})"
        ),
    )
