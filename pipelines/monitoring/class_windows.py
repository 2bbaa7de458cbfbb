"""Measure and estimate the performance of a multiclass model on the days of a window, and compare it with the holdout.

Recall and precision are computed for each class; estimated accuracy and macro AUC, for the whole model.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import numpy as np

from pipelines.monitoring.drift import Finding, Policy
from pipelines.monitoring.drift.classes import ClassDays, MetricKey, estimate_classes, measure_classes
from pipelines.monitoring.drift.counts import Array
from pipelines.monitoring.drift.performance import Performance, compare_metric
from pipelines.monitoring.profiles.column_plans import CLASS_COUNTS, CLASS_SUMS
from pipelines.monitoring.profiles.profile import Profile

Performances = Mapping[MetricKey, Performance]
"""Maps the column and the metric (`MetricKey`) to the performance."""


def measure_class_days(days: Mapping[dt.date, Profile], policy: Policy) -> Performances:
    """Measure the recall of each class over the days with labels.

    Return no metrics if no day has labels, or if the model is not multiclass.
    """
    classes = _collect_classes([profile for profile in days.values() if profile.labelled_rows])
    return measure_classes(classes, policy.alpha) if classes else {}


def estimate_class_days(days: Mapping[dt.date, Profile], policy: Policy) -> Performances:
    """Estimate the performance of the model and of each class from the scores of all days.

    Return no estimates if no row has scores of classes, or if the model is not multiclass.
    """
    classes = _collect_classes(list(days.values()))
    return estimate_classes(classes, policy.alpha) if classes else {}


def compare_class_metrics(window: Performances, holdout: Performances) -> list[Finding]:
    """Compare each metric of the window with that of the holdout. Leave out a metric that the holdout lacks."""
    return [
        compare_metric(column, measure, performance, holdout[column, measure])
        for (column, measure), performance in window.items()
        if (column, measure) in holdout
    ]


def _collect_classes(profiles: Sequence[Profile]) -> list[ClassDays]:
    """Collect the counts and sums of each class by day. Without profiles that have scores of classes, return none."""
    profiles = [profile for profile in profiles if profile.classes and sum(profile.classes[0].counts[CLASS_COUNTS:])]
    if not profiles:
        return []
    classes = zip(*(profile.classes for profile in profiles), strict=True)
    return [
        _build_class_days(
            columns[0].name.removeprefix("class "),
            np.asarray([column.counts for column in columns], dtype=np.float64),
            np.asarray([column.sums for column in columns]),
        )
        for columns in classes
    ]


def _build_class_days(name: str, counts: Array, sums: Array) -> ClassDays:
    predicted_rows, labelled_rows, hits = counts[:, :CLASS_COUNTS].T
    expected_rows, expected_hits, squares, hit_squares = sums[:, :CLASS_SUMS].T
    return ClassDays(
        name=name,
        predicted=predicted_rows,
        labelled=labelled_rows,
        hits=hits,
        bins=counts[:, CLASS_COUNTS:],
        expected=expected_rows,
        expected_hits=expected_hits,
        squares=squares,
        hit_squares=hit_squares,
        expected_bins=sums[:, CLASS_SUMS:],
    )
