"""Measure the weekly performance of a model from the profiles of the rows that it scored."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import In

from pipelines.backtest.primary import PRIMARY_METRICS
from pipelines.dataset import Task
from pipelines.lake.cached import CachedLake
from pipelines.lake.month_table import MonthTable
from pipelines.monitoring.drift.counts import Array
from pipelines.monitoring.drift.finding import Measure
from pipelines.monitoring.drift.performance import METRICS, Metric, measure_performance
from pipelines.monitoring.drift.regression_errors import measure_errors
from pipelines.monitoring.profiles import table as profiles
from pipelines.registry.lifecycle import State
from pipelines.status.documents.models import Performance, WeekPerformance

ALPHA = 0.025
"""Probability that the true value is beyond an end of the interval, for each end: it is a 95 % interval."""
COLUMNS = ("day", "model_name", "model_version", "kind", "counts", "sums")
"""Columns of the table `profiles` that are read."""
KINDS = ("joint", "error")
"""Kinds of the columns of a profile from which the performance is measured. Rows without labels are not in them."""


@dataclass(frozen=True)
class LabelledDay:
    """The rows of a day that a version scored, and whose labels are known."""

    day: dt.date
    version: str
    counts: tuple[int, ...]
    """Number of rows in each bin of the score, first of rows with label false, then of rows with label true; of a
    multiclass model, the label is whether the model is right. Of a regression model, only the number of rows."""
    sums: tuple[float, ...]
    """Of a regression model, the sum of the absolute and the sum of the squared errors; otherwise not used here."""

    @property
    def rows(self) -> int:
        """Number of rows with score and label."""
        return sum(self.counts)


def get_week_start(day: dt.date) -> dt.date:
    """Return the Monday of the week of a day."""
    return day - dt.timedelta(day.weekday())


def measure_weeks(
    lake: CachedLake, model: str, task: Task, state: State, as_of_by_version: Mapping[str, dt.date]
) -> Performance | None:
    """Measure the primary metric of the task in each week that has labels; None if it cannot be measured in any week.

    The metric depends on the task: AUC, accuracy or mean absolute error. The interval is computed from the variance
    between days, as in the drift step. A week is left out if its labels are all the same (AUC), if the model is right
    in all rows or wrong in all rows (accuracy), or if it has only one row (mean absolute error).

    Of each day, only the rows of one version are used: the version that `choose_version` chooses.

    Args:
        lake: lake with the table of profiles.
        model: registered model.
        task: what the model predicts.
        state: state of the model in the registry.
        as_of_by_version: version to the as_of of its training, as far as it is known.
    """
    key = ("weeks", model, task, state.champion, len(state.events), frozenset(as_of_by_version.items()))
    return lake.get_or_read(
        profiles.TABLE, key, lambda: _measure_weeks(_read_days(lake, model), task, state, as_of_by_version)
    )


def choose_version(day: dt.date, versions: Iterable[str], state: State, as_of_by_version: Mapping[str, dt.date]) -> str:
    """Choose the version that was champion for a day of data, of the versions that scored it.

    The time of a promotion cannot be used, because past days may be scored and judged at any time. Only versions that
    are or were champion are considered; if there is none, all versions are. Of these, the version with the latest as_of
    up to the day is chosen; of several with this as_of, the newest. If none has such an as_of, the newest version
    without a known as_of is chosen; if each as_of is known, the version with the latest as_of.

    Args:
        day: the day of data.
        versions: one or more versions that scored the day.
        state: state of the model in the registry.
        as_of_by_version: version to the as_of of its training, as far as it is known.
    """
    champions = {event.to_version for event in state.events if event.changes_champion}
    versions = list(versions)
    considered_versions = [version for version in versions if version in champions] or versions
    earlier_versions = [version for version in considered_versions if as_of_by_version.get(version, dt.date.max) <= day]
    undated_versions = [version for version in considered_versions if version not in as_of_by_version]
    return max(
        earlier_versions or undated_versions or considered_versions,
        key=lambda version: (as_of_by_version.get(version, day), int(version)),
    )


def _read_days(lake: CachedLake, model: str) -> list[LabelledDay]:
    """Read the labelled days of a model, oldest first."""
    months = MonthTable(profiles.TABLE, profiles.SCHEMA, lake.catalog)
    table: pa.Table = lake.get_or_read(profiles.TABLE, "labels", lambda: months.read(In("kind", KINDS), COLUMNS))
    rows = table.filter(pc.field("model_name") == model).to_pylist()
    days = (
        LabelledDay(row["day"], row["model_version"], tuple(row["counts"]), tuple(row["sums"] or ())) for row in rows
    )
    return sorted((day for day in days if day.rows), key=lambda day: (day.day, int(day.version)))


def _measure_weeks(
    days: Sequence[LabelledDay], task: Task, state: State, as_of_by_version: Mapping[str, dt.date]
) -> Performance | None:
    days_by_date: dict[dt.date, dict[str, LabelledDay]] = {}
    for day in days:
        days_by_date.setdefault(day.day, {})[day.version] = day
    days_by_week: dict[dt.date, list[LabelledDay]] = {}
    for date, day_by_version in days_by_date.items():
        version = choose_version(date, day_by_version, state, as_of_by_version)
        days_by_week.setdefault(get_week_start(date), []).append(day_by_version[version])
    weeks = [_measure_week(week, week_days, task) for week, week_days in days_by_week.items()]
    known_weeks = [week for week in weeks if week]
    metric = PRIMARY_METRICS[task]
    if not known_weeks:
        return None
    return Performance(metric=metric.name, higher_is_better=metric.greater_is_better, weeks=known_weeks)


def _measure_week(week: dt.date, days: Sequence[LabelledDay], task: Task) -> WeekPerformance | None:
    """Measure the metric of a week; None if it cannot be computed."""
    estimates = _measure_errors(days) if task == "regression" else _measure_counts(days, task)
    estimate = next(iter(estimates.values()), None)
    if estimate is None or not np.isfinite(estimate.value):
        return None
    has_interval = len(days) > 1 and estimate.days is not None and np.isfinite(estimate.se)
    return WeekPerformance(
        week=week,
        value=estimate.value,
        low=estimate.low if has_interval else None,
        high=estimate.high if has_interval else None,
        rows=sum(day.rows for day in days),
        versions=sorted({day.version for day in days}, key=int),
    )


def _measure_errors(days: Sequence[LabelledDay]) -> Mapping[Measure, Any]:
    rows, absolute_sums, squared_sums = np.asarray([(*day.counts, *day.sums) for day in days], dtype=np.float64).T
    return measure_errors(rows, absolute_sums, squared_sums, ALPHA)


def _measure_counts(days: Sequence[LabelledDay], task: Task) -> Mapping[Measure, Any]:
    """Measure the AUC of a binary model, or the accuracy of a multiclass model.

    The label in the profile of a multiclass model is whether the model is right: its rate is the accuracy.
    """
    # `measure_performance` takes an array of shape (days, bins, labels).
    counts = np.asarray([day.counts for day in days], dtype=np.float64).reshape(len(days), 2, -1).swapaxes(1, 2)
    metrics: dict[Measure, Metric] = {"label_rate": _compute_label_rate}
    if task == "binary":
        metrics = {"auc": METRICS["auc"]}
    # Neither metric uses the scores of the bins, so they are 0 here. The AUC uses the order of the bins.
    return measure_performance(counts, np.zeros(counts.shape[1]), ALPHA, metrics)


def _compute_label_rate(counts: Array, scores: Array) -> Array:
    """Compute the share of rows whose label is true."""
    rows = counts.sum(axis=(-2, -1))
    return np.asarray(np.divide(counts[..., 1].sum(axis=-1), rows, out=np.full(rows.shape, np.nan), where=rows != 0))
