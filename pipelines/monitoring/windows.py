"""Compare the profiles of a model version's days with its reference, window by window.

The result of each window is a list of findings, from which `pipelines.monitoring.drift` decides whether there is an
alarm.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from pipelines.errors import DataError
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.monitoring.class_windows import (
    Performances,
    compare_class_metrics,
    estimate_class_days,
    measure_class_days,
)
from pipelines.monitoring.drift import (
    Finding,
    Measure,
    Policy,
    WindowResult,
    columns,
    performance,
    regression_errors,
    seasonal,
)
from pipelines.monitoring.drift.counts import Array, ComparedColumn, Counts, Kind
from pipelines.monitoring.drift.performance import Performance
from pipelines.monitoring.profiles.profile import Profile
from pipelines.monitoring.profiles.record import ReferenceRecord
from pipelines.monitoring.profiles.reference import SCORE_EDGES
from pipelines.score_columns import PREDICTED

ProfilesByDay = Mapping[dt.date, Profile]
COLUMN_KINDS: Mapping[str, Kind] = {"number": "numeric", "score": "numeric", "category": "category", "label": "label"}
"""Maps each kind of column in a profile to its kind in a comparison."""
FULL_WEIGHT = 1.0
"""Weight of scores, labels and performance: drift of one of them is enough for an alarm."""


@dataclass(frozen=True)
class ComparedWindow:
    """A window and its findings."""

    day: dt.date
    """Last day of the window."""
    columns: tuple[ComparedColumn, ...]
    """Columns with their counts in the reference and in the window."""
    performance: Mapping[Measure, Estimate]
    """The metrics measured over the days with labels, and those estimated from the scores of all days. A metric that
    could not be computed is left out."""
    result: WindowResult
    """The findings."""
    classes: Performances = field(default_factory=dict)
    """The performance of a multiclass model and of each of its classes, measured and estimated."""


def compare_windows(
    record: ReferenceRecord,
    days: ProfilesByDay,
    length: int,
    weights: Mapping[str, float],
    policy: Policy,
    label_delay_days: int,
    refused_days: Collection[dt.date] = (),
) -> Iterator[ComparedWindow]:
    """Compare all complete windows with the reference, in the order of their last days.

    Args:
        record: the reference, with the profiles of its own days.
        days: profile of each day, counted in the bins of the reference; up to the last day to decide on.
        length: number of days of a window.
        weights: importance of each feature, 0 to 1; a feature that is missing here has 0. If all are 0, all features
            get the same weight, because otherwise none could cause an alarm.
        policy: policy with the level of the intervals, and the smallest number of rows.
        label_delay_days: number of days after which the labels of a day are known.
        refused_days: days that are not scored because validation refused them. A window is complete without them.

    Raises:
        DataError: a profile belongs to another reference. A retry cannot help.
    """
    for day, profile in days.items():
        if profile.reference != record.reference.digest:
            raise DataError(f"the profile of {day} belongs to another reference.", "Run `profile` for that day again.")
    holdout = _Holdout.measure(record, policy)
    feature_names = [number.name for number in record.reference.numbers]
    feature_names += [category.name for category in record.reference.categories]
    feature_weights = weights if any(weights.values()) else {name: 1 / len(feature_names) for name in feature_names}
    for last_day in sorted({*days, *refused_days}):
        window_days = [last_day - dt.timedelta(distance) for distance in reversed(range(length))]
        window = {day: days[day] for day in window_days if day in days}
        if not window or not all(day in days or day in refused_days for day in window_days):
            continue
        labelled_days = {
            day: profile for day, profile in window.items() if last_day - day >= dt.timedelta(label_delay_days)
        }
        yield _compare_window(record, last_day, window, labelled_days, holdout, feature_weights, policy)


def measure_days(days: ProfilesByDay, policy: Policy) -> dict[Measure, Performance]:
    """Measure the performance of a model over the days with labels; empty if their labels are not enough.

    The score of a bin is its mean score on these days.
    """
    profiles = _select_labelled_profiles(days)
    if not profiles:
        return {}
    if profiles[0].errors:
        return _measure_errors(profiles, policy)
    scores = _compute_bin_scores(profiles)
    return performance.measure_performance(_stack_joint_counts(profiles), scores, policy.alpha)


def _compare_window(
    record: ReferenceRecord,
    last_day: dt.date,
    window: ProfilesByDay,
    labelled_days: ProfilesByDay,
    holdout: _Holdout,
    weights: Mapping[str, float],
    policy: Policy,
) -> ComparedWindow:
    compared_columns = (
        *_build_feature_columns(record, window, weights),
        *_build_score_and_label_columns(record, window, labelled_days),
    )
    measured_performance = _measure_window(record, labelled_days, policy) if holdout.metrics else {}
    estimated_performance = _estimate_from_scores(record, window, policy) if holdout.metrics else {}
    measured_classes = measure_class_days(labelled_days, policy)
    estimated_classes = estimate_class_days(window, policy)
    measured_findings = [
        *performance.compare_metrics(measured_performance, holdout.metrics),
        *compare_class_metrics(measured_classes, holdout.classes),
    ]
    performance_findings = (
        *_drop_effects_of_few_labels(measured_findings, labelled_days, policy),
        *performance.compare_metrics(estimated_performance, holdout.metrics),
        *compare_class_metrics(estimated_classes, holdout.classes),
    )
    rows = sum(profile.rows for profile in window.values())
    result = columns.summarize_window(last_day.isoformat(), rows, compared_columns, performance_findings)
    metrics = {**measured_performance, **estimated_performance}
    return ComparedWindow(last_day, compared_columns, metrics, result, {**measured_classes, **estimated_classes})


@dataclass(frozen=True)
class _Holdout:
    """The performance on the holdout: measured from labels, and estimated from scores."""

    metrics: Mapping[Measure, Performance]
    """Performance of the whole model, by measure; empty if the holdout's labels are not enough to measure it."""
    classes: Performances
    """Performance of a multiclass model and of each of its classes; empty if the model is not multiclass."""

    @classmethod
    def measure(cls, record: ReferenceRecord, policy: Policy) -> _Holdout:
        """Measure and estimate the performance on the holdout of a record."""
        metrics, classes = measure_days(record.holdout, policy), measure_class_days(record.holdout, policy)
        if metrics:
            metrics |= _estimate_from_scores(record, record.holdout, policy)
        return cls(metrics, {**classes, **estimate_class_days(record.holdout, policy)})


def _measure_window(
    record: ReferenceRecord, labelled_days: ProfilesByDay, policy: Policy
) -> dict[Measure, Performance]:
    """Measure the performance from labels. The score of a bin is its mean score on the holdout."""
    profiles = _select_labelled_profiles(labelled_days)
    if not profiles:
        return {}
    if profiles[0].errors:
        return _measure_errors(profiles, policy)
    bin_scores = _compute_bin_scores(list(record.holdout.values()))
    return performance.measure_performance(_stack_joint_counts(profiles), bin_scores, policy.alpha)


def _estimate_from_scores(record: ReferenceRecord, days: ProfilesByDay, policy: Policy) -> dict[Measure, Performance]:
    """Estimate the performance without labels, from scores that are calibrated by the holdout's labels.

    In a regression, the estimate is the mean of the errors that models predict. It is empty without such models.
    """
    if record.reference.target:
        return _estimate_errors(days, policy)
    holdout = list(record.holdout.values())
    counts = _stack_joint_counts(holdout).sum(axis=0)
    probabilities = performance.calibrate_scores(counts, _compute_bin_scores(holdout))
    histogram = np.asarray([profile["score"].counts for profile in days.values()])
    return performance.estimate_performance(histogram, probabilities, policy.alpha)


def _measure_errors(profiles: Sequence[Profile], policy: Policy) -> dict[Measure, Performance]:
    """Measure the mean absolute error of a regression from profiles that have rows with score and label."""
    error_columns = [profile.errors for profile in profiles if profile.errors]
    rows, absolute_errors, squared_errors = np.asarray([(*column.counts, *column.sums) for column in error_columns]).T
    return regression_errors.measure_errors(rows, absolute_errors, squared_errors, policy.alpha)


def _estimate_errors(days: ProfilesByDay, policy: Policy) -> dict[Measure, Performance]:
    """Compute the mean of the errors that models predicted (`losses` of a profile); empty without predictions."""
    loss_columns = [profile.losses for profile in days.values() if profile.losses and sum(profile.losses.counts)]
    if not loss_columns:
        return {}
    rows = np.asarray([column.counts[0] for column in loss_columns], dtype=np.float64)
    return regression_errors.estimate_errors(rows, np.asarray([column.sums for column in loss_columns]), policy.alpha)


def _drop_effects_of_few_labels(
    findings: Sequence[Finding], labelled_days: ProfilesByDay, policy: Policy
) -> Sequence[Finding]:
    """Remove the effects and p-values of findings from too few labels: such effects may be large by chance."""
    rows = sum(profile.labelled_rows for profile in labelled_days.values())
    if rows >= policy.min_rows:
        return findings
    note = f"{rows} labelled rows, fewer than the {policy.min_rows} that a decision needs"
    return [replace(finding, effect=None, p_value=None, note=note) for finding in findings]


def _select_labelled_profiles(days: ProfilesByDay) -> list[Profile]:
    return [profile for profile in days.values() if profile.labelled_rows]


def _build_feature_columns(
    record: ReferenceRecord, window: ProfilesByDay, weights: Mapping[str, float]
) -> Iterator[ComparedColumn]:
    edges = {number.name: number.edges for number in record.reference.numbers}
    training = _select_season(record.training, window)
    for name in (*edges, *(item.name for item in record.reference.categories if item.name != PREDICTED)):
        yield _build_column(name, training, window, edges.get(name), weights.get(name, 0.0))


def _build_score_and_label_columns(
    record: ReferenceRecord, window: ProfilesByDay, labelled_days: ProfilesByDay
) -> Iterator[ComparedColumn]:
    """Build the columns of scores, predicted classes and labels.

    Scores and predicted classes are compared with the holdout only: a model predicts its training rows too well.
    """
    yield _build_column("score", record.holdout, window, record.reference.score.edges, FULL_WEIGHT)
    if any(category.name == PREDICTED for category in record.reference.categories):
        yield _build_column(PREDICTED, record.holdout, window, None, FULL_WEIGHT)
    label, target = record.reference.label, record.reference.target
    if any(sum(profile[label].counts) for profile in labelled_days.values()):
        reference = _select_season({**record.training, **record.holdout}, labelled_days)
        yield _build_column(label, reference, labelled_days, target.edges if target else None, FULL_WEIGHT)


def _select_season(reference: ProfilesByDay, window: ProfilesByDay) -> ProfilesByDay:
    """Select the reference's days that are about a year before the window; all of its days if these are too few."""
    is_selected = seasonal.select_same_weeks(list(reference), list(window))
    return {
        day: profile
        for (day, profile), is_day_selected in zip(reference.items(), is_selected, strict=True)
        if is_day_selected
    }


def _build_column(
    name: str, reference: ProfilesByDay, window: ProfilesByDay, edges: Sequence[float] | None, weight: float
) -> ComparedColumn:
    # A label with edges is a number.
    kind: Kind = "numeric" if edges else COLUMN_KINDS[next(iter(reference.values()))[name].kind]
    return ComparedColumn(
        name,
        kind,
        _collect_counts(name, reference),
        _collect_counts(name, window),
        np.asarray(edges) if edges else None,
        weight,
    )


def _collect_counts(name: str, days: ProfilesByDay) -> Counts | None:
    """Collect the counts of a column; None if no day has the column. Rows of a day without it are added as missing."""
    profiled_columns = [profile[name] for profile in days.values()]
    if all(column.absent for column in profiled_columns):
        return None
    bins = [column.counts for column in profiled_columns]
    missing_counts = [column.missing + column.absent for column in profiled_columns]
    return Counts(np.asarray(bins), np.asarray(missing_counts), np.asarray([day.weekday() for day in days]))


def _stack_joint_counts(profiles: Sequence[Profile]) -> Array:
    """Stack the counts of score bin x label, shape (days, bins, 2)."""
    counts = np.asarray([profile.joint.counts for profile in profiles], dtype=np.float64)
    return counts.reshape(len(profiles), 2, -1).swapaxes(1, 2)


def _compute_bin_scores(profiles: Sequence[Profile]) -> Array:
    """Compute the mean score of the rows in each bin; for a bin without rows, its middle."""
    middles = [(low + high) / 2 for low, high in pairwise(SCORE_EDGES)]
    sums = np.asarray([profile.joint.sums for profile in profiles]).sum(axis=0).reshape(2, -1).sum(axis=0)
    rows = _stack_joint_counts(profiles).sum(axis=(0, 2))
    return np.asarray(np.divide(sums, rows, out=np.asarray([0.0, *middles, 1.0]), where=rows > 0))
