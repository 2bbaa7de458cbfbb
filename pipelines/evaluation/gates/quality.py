"""Check how good a candidate is: compare it with bounds, with trivial models, and with the champion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pipelines.dataset import Task
from pipelines.evaluation.gates.checks import check_estimate, check_value, report_estimate
from pipelines.evaluation.gates.estimates import estimate_gain, estimate_metric, find_groups, has_too_few_groups
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.policy import Comparison, Policy
from pipelines.evaluation.gates.verdict import Check
from pipelines.evaluation.statistics.mcnemar import run_mcnemar_test

MEANS: Mapping[Task, str] = {"binary": "rate", "multiclass": "class shares", "regression": "mean"}
"""Maps each task to the word for the mean of the labels."""


def check_bounds(holdout: Holdout, policy: Policy) -> list[Check]:
    """Check the candidate's metrics, with their intervals, against `policy.bounds`."""
    checks = []
    for name, bound in policy.bounds.items():
        estimate = estimate_metric(holdout, name, policy)
        if bound.at_least is not None:
            checks.append(check_estimate(name, estimate, bound.at_least, policy))
        if bound.at_most is not None:
            # If a metric is too good, the features probably contain the label.
            title = f"{name}, leakage" if holdout.metrics[name].greater_is_better else name
            checks.append(check_estimate(title, estimate, bound.at_most, policy, is_upper=True))
    return checks


def report_own_metrics(holdout: Holdout, policy: Policy) -> list[Check]:
    """Report the dataset's own metrics that have no bound, with their intervals."""
    names = [name for name in holdout.own_metrics if name not in policy.bounds]
    return [report_estimate(name, estimate_metric(holdout, name, policy)) for name in names]


def check_against_baselines(holdout: Holdout, policy: Policy) -> list[Check]:
    """Check that the candidate beats two models without features.

    Each of these two models predicts the same for every row: the share of label 1, in a regression the mean label, or
    the shares of the classes. One model computes this from all training days, the other from their last week.
    """
    mean = MEANS[holdout.task]
    rates = {
        f"the label's {mean} in training": holdout.base_rate,
        f"the label's {mean} in the last week of training": holdout.last_week_rate,
    }
    return [
        check_estimate(
            f"{metric} against {name}",
            estimate_gain(holdout, _repeat(rate, holdout), Comparison(metric=metric), policy),
            0.0,
            policy,
            is_strict=True,
        )
        for metric in policy.baseline
        for name, rate in rates.items()
    ]


def _repeat(rate: float | Array, holdout: Holdout) -> Array:
    """Return a score for each row: the rate, or the shares of the classes."""
    return np.broadcast_to(rate, holdout.candidate_score.shape).astype(np.float64)


def check_against_champion(holdout: Holdout, policy: Policy) -> list[Check]:
    """Compare the candidate with the champion as the policy says.

    If there is no champion to compare with, return no checks.
    """
    champion_score, threshold = holdout.champion_score, policy.threshold
    if champion_score is None:
        return []
    checks = [
        check_estimate(
            f"{comparison.metric} against the champion's",
            estimate_gain(holdout, score, comparison, policy),
            -comparison.margin,
            policy,
            is_strict=comparison.margin == 0,
            relevant_effect=comparison.relevant_gain,
        )
        for comparison in policy.champion
        if (score := holdout.select_champion_output(holdout.metrics[comparison.metric])) is not None
    ]
    if threshold is not None:
        checks.append(_check_at_threshold(holdout, champion_score, threshold, policy))
    return checks


def check_recency(days_after_champion: int | None) -> list[Check]:
    """Check that the candidate's window is not older than the champion's; return no check if there is no champion."""
    name = "days that the window is newer than the champion's"
    return [] if days_after_champion is None else [check_value(name, days_after_champion, at_least=0)]


def _check_at_threshold(holdout: Holdout, champion_score: Array, threshold: float, policy: Policy) -> Check:
    """Compare the shares of rows that the candidate and the champion predict correctly at the threshold.

    The candidate's share may be lower by at most `policy.threshold_margin`. With too few groups, the check is
    undecided, and its interval is the one for independent rows.
    """
    groups, scores = find_groups(holdout, policy), (holdout.candidate_score, champion_score)
    if groups is not None and has_too_few_groups(groups, policy):
        result = run_mcnemar_test(holdout.label, *scores, threshold, alpha=policy.alpha)
        gain = replace(result.gain, groups=len(np.unique(groups)))
    else:
        result = run_mcnemar_test(holdout.label, *scores, threshold, alpha=policy.alpha, groups=groups)
        gain = result.gain
    name = f"share of rows predicted correctly at {threshold:g} against the champion's"
    check = check_estimate(name, gain, -policy.threshold_margin, policy)
    test = f"McNemar by {policy.group_by}" if policy.group_by else "McNemar"
    counts = (
        f"at the threshold {threshold:g}, only the candidate is right on {result.candidate_only} rows, only the "
        f"champion on {result.champion_only} ({test}, p = {result.p_value:.3g})"
    )
    return check.model_copy(update={"reason": f"{counts}: {check.reason}"})
