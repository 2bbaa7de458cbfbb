"""Judge a candidate: run every check of a policy on one holdout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from pipelines.evaluation.gates import holdout_parts, leakage, quality, serving
from pipelines.evaluation.gates.checks import check_row_count, check_value, report_value
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.task_policy import complete_policy
from pipelines.evaluation.gates.verdict import Check
from pipelines.evaluation.statistics.weighted import select_measured_classes


@dataclass(frozen=True)
class JudgedData:
    """The data by which a candidate is judged."""

    holdout: Holdout
    """The rows, with the scores of both models."""
    features: Sequence[str] = ()
    """Columns of the holdout that are features of the model."""
    days_after_champion: int | None = None
    """The candidate's as_of minus the champion's, days; None if there is no champion."""
    package: serving.PackageMeasurements | None = None
    """Measurements of the packaged model; None if the candidate is not registered, or the policy has no `serving`."""
    cost_usd: float | None = None
    """Cost of the training, US dollars; None if it is not known."""


@dataclass(frozen=True)
class Judgement:
    """The checks of a candidate, and the tables behind the checks of slices and weeks."""

    checks: list[Check]
    """The result of every check."""
    slices: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row for each slice; columns `holdout_parts.TABLE_COLUMNS`."""
    weeks: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row for each week; columns `holdout_parts.TABLE_COLUMNS`."""


def judge(evidence: JudgedData, policy: Policy) -> Judgement:
    """Run every check of the policy.

    Raises:
        DataError: the holdout lacks a column that the policy names. A retry cannot help.
        SpecError: the policy names a metric or a check that models of this task do not have. A retry cannot help.
    """
    holdout, package = evidence.holdout, evidence.package
    policy = complete_policy(policy, holdout.task, holdout.metrics)
    slice_checks, slices = holdout_parts.check_slices(holdout, policy)
    week_checks, weeks = holdout_parts.check_weeks(holdout, policy)
    checks = [
        check_row_count("rows of holdout", len(holdout.label), policy.min_rows, _count_label_rows(holdout, policy)),
        *quality.check_bounds(holdout, policy),
        *quality.report_own_metrics(holdout, policy),
        *quality.check_against_baselines(holdout, policy),
        *quality.check_against_champion(holdout, policy),
        *quality.check_recency(evidence.days_after_champion),
        *slice_checks,
        *week_checks,
        *_check_leakage(evidence, policy.max_solo_auc),
        *(serving.check_package(package, policy.serving) if package and policy.serving else []),
        *_check_cost(evidence.cost_usd, policy.max_cost_usd),
    ]
    return Judgement(checks, slices, weeks)


def _count_label_rows(holdout: Holdout, policy: Policy) -> dict[str, int]:
    """Count the rows of the rarer label; for a multiclass model, of each class that the policy's metrics measure.

    In a regression, nothing is counted.
    """
    if holdout.task == "binary":
        ones = int((holdout.label == 1).sum())
        return {"the rarer label": min(ones, len(holdout.label) - ones)}
    metrics = (*policy.bounds, *policy.baseline, *(comparison.metric for comparison in policy.champion))
    measured_classes = {name for metric in metrics for name in select_measured_classes(metric, holdout.classes)}
    return {
        f"the class {name}": int((holdout.label == index).sum())
        for index, name in enumerate(holdout.classes)
        if name in measured_classes
    }


def _check_leakage(evidence: JudgedData, bound: float | None) -> list[Check]:
    return [] if bound is None else [leakage.check_single_features(evidence.holdout, evidence.features, bound)]


def _check_cost(cost_usd: float | None, bound: float | None) -> list[Check]:
    name = "cost of the training, USD"
    if cost_usd is None:
        return []
    if bound is None:
        return [report_value(name, f"{name} is {cost_usd:.4g}", cost_usd)]
    return [check_value(name, cost_usd, at_most=bound)]
