"""Estimate metrics of a holdout, and differences between models, as the policy says: by rows or by groups of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.policy import Comparison, Policy
from pipelines.evaluation.statistics import bootstrap, delong
from pipelines.evaluation.statistics.calibration import estimate_ece
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.multiclass import measure_top_class
from pipelines.evaluation.statistics.weighted import BINARY_METRICS, Metric, compute_metric, select_measured_classes


def find_groups(holdout: Holdout, policy: Policy) -> Array | None:
    """Number the groups in the order of their values, and return the number of each row's group.

    Returns:
        Shape (rows,); None if the policy treats the rows as independent.

    Raises:
        DataError: the holdout lacks the column of the groups. A retry cannot help.
    """
    if not policy.group_by:
        return None
    # Rows with a missing value form one group, with the number -1.
    return np.asarray(pd.factorize(holdout.get_column(policy.group_by), sort=True)[0])


def estimate_metric(holdout: Holdout, name: str, policy: Policy) -> Estimate:
    """Estimate a metric of the candidate, with its interval.

    For the AUC of independent rows, the method is DeLong's. For the ECE, it is that of `statistics.calibration`, except
    for a multiclass model whose predictions are all right or all wrong. In all other cases, it is the jackknife by
    groups or, for independent rows, the bootstrap.

    With fewer groups than the policy requires, the interval is infinite. A metric of a class without rows is NaN.
    """
    label, score = holdout.label, holdout.select_candidate_output(holdout.metrics[name])
    groups, metric = find_groups(holdout, policy), _find_metric(holdout, name)
    if _lacks_class(holdout, name):
        return _make_unbounded_estimate(math.nan, groups, len(label))
    if name == "auc" and groups is None:
        return delong.estimate_auc(label, score, alpha=policy.alpha)
    if has_too_few_groups(groups, policy):
        return _make_unbounded_estimate(compute_metric(label, score, metric), groups, len(label))
    if name == "ece" and holdout.task == "multiclass":
        # This is the ECE of a binary label: whether the predicted class is right.
        is_right, confidence = measure_top_class(label, score)
        if is_right.any() and not is_right.all():
            return estimate_ece(is_right, confidence, alpha=policy.alpha, groups=groups)
    options: dict[str, Any] = {"alpha": policy.alpha, "draws": policy.draws, "seed": policy.seed}
    return bootstrap.estimate_metric(label, score, metric, groups=groups, **options)


def estimate_gain(holdout: Holdout, other_score: Array, comparison: Comparison, policy: Policy) -> Estimate:
    """Estimate how much better the candidate is than another model. Positive means better, for every metric.

    With fewer groups than the policy requires, the interval is infinite. A metric of a class without rows is NaN.
    """
    name = comparison.metric
    label, score = holdout.label, holdout.select_candidate_output(holdout.metrics[name])
    groups, metric = find_groups(holdout, policy), _find_metric(holdout, name)
    if _lacks_class(holdout, name):
        return _make_unbounded_estimate(math.nan, groups, len(label))
    if name == "auc" and groups is None and comparison.test != "bootstrap":
        return delong.estimate_auc_difference(label, score, other_score, alpha=policy.alpha)
    if has_too_few_groups(groups, policy):
        difference = _make_unbounded_estimate(
            compute_metric(label, score, metric) - compute_metric(label, other_score, metric), groups, len(label)
        )
    else:
        options: dict[str, Any] = {"alpha": policy.alpha, "draws": policy.draws, "seed": policy.seed}
        difference = bootstrap.estimate_difference(label, score, other_score, metric, groups=groups, **options)
    return difference if holdout.metrics[name].greater_is_better else -difference


def _find_metric(holdout: Holdout, name: str) -> Metric | str:
    """Return the metric; for a common binary metric its name, for which `bootstrap` may have a special method."""
    return name if name in BINARY_METRICS and holdout.task == "binary" else holdout.metrics[name]


def has_too_few_groups(groups: Array | None, policy: Policy) -> bool:
    """Return whether the rows have groups, but fewer than the policy requires."""
    return groups is not None and len(np.unique(groups)) < policy.min_groups


def _lacks_class(holdout: Holdout, name: str) -> bool:
    """Return whether the metric is that of one class, and no row of the holdout has this class."""
    measured_classes = select_measured_classes(name, holdout.classes)
    return len(measured_classes) == 1 and holdout.classes.index(measured_classes[0]) not in holdout.label


def _make_unbounded_estimate(value: float, groups: Array | None, rows: int) -> Estimate:
    """Make an estimate of this value with an infinite interval."""
    return Estimate(value, -math.inf, math.inf, math.inf, rows, None if groups is None else len(np.unique(groups)))
