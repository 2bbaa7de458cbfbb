"""Compare the loop with never retraining and with retraining monthly, by the primary metric of each week.

No result depends on the future: a day is scored only by a version that was trained as of that day or earlier.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipelines.backtest.primary import AUC, PRIMARY_METRICS, Gain, PrimaryMetric, compare_values
from pipelines.backtest.study import NEVER_STRATEGY, Scorer, build_labelled_rows
from pipelines.costs.ledger import Ledger
from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.lake import DATE_COLUMN, Lake
from pipelines.loop.events import History, Kind
from pipelines.loop.journal import Journal
from pipelines.partitions import refuse_monthly_partitions
from pipelines.registry.lifecycle import Kind as LifecycleKind
from pipelines.registry.lifecycle.journal import Journal as Lifecycle
from pipelines.registry.scorer import load_scorer
from pipelines.registry.versions import Registry, read_as_of
from pipelines.system.log import log
from pipelines.window import DAY, Days

MONTHLY_STRATEGY, DRIFT_STRATEGY = "retrain monthly", "on drift"
"""Names of strategies, as the report shows them; `NEVER_STRATEGY` is the name of the third."""
STRATEGIES: Sequence[tuple[str, str, Sequence[str]]] = (
    (NEVER_STRATEGY, "the first champion serves throughout", ()),
    (
        MONTHLY_STRATEGY,
        "trained again as of the first of each month; a version that does not pass the gate never serves",
        ("backfill", "schedule"),
    ),
    (
        DRIFT_STRATEGY,
        "trained when the drift sensor requests it, on drift or by age, and no guard holds it back; only promoted "
        "versions serve",
        ("drift",),
    ),
)
"""Name and rule of each strategy, and the triggers that start its trainings. `make replay` starts the monthly ones by a
backfill. The trigger `drift` includes the age of the model."""
WEEK_DAYS = 7


@dataclass(frozen=True)
class ServedVersion:
    """A version, and the first day on which it would have served under a strategy."""

    version: str
    since: dt.date


@dataclass(frozen=True)
class Strategy:
    """A retraining strategy, and its results."""

    name: str
    rule: str
    """When the strategy trains, in words."""
    serving_versions: Sequence[ServedVersion]
    """Versions that would have served, oldest first; the first of them served on the first day."""
    runs: Sequence[str]
    """The run that trained the first version, and the runs of all later trainings of the strategy, including those
    whose version never served."""
    cost_usd: float | None
    """Cost of these runs in the ledger; None if the ledger lacks one of them."""

    def find_version_on(self, day: dt.date) -> str:
        """Return the version that would have served on the day."""
        return [served_version.version for served_version in self.serving_versions if served_version.since <= day][-1]


@dataclass(frozen=True)
class Week:
    """Seven days; fewer at the end of the study."""

    days: Days
    rows: int
    """Labelled rows."""
    values: Mapping[str, float]
    """Maps the name of each strategy to its primary metric in this week."""


@dataclass(frozen=True)
class TimelineEvent:
    """An event on the timeline of the report."""

    day: dt.date
    """The as_of of the training or of the version; for a reset, the as_of of the event before it, or the study's
    first day if there is no such event."""
    kind: str
    """started, held_back or reset; for a training that ended, its outcome: passed, not_passed or failed; for a change
    of the champion: promoted, rolled_back or alias_moved (the alias was moved in MLflow, not by a command)."""
    text: str
    """Reason of the event; empty for a training that ended. If a guard held the training back, the name of the guard
    comes first: GUARD: REASON. For a change of the champion, the old and the new champion."""


@dataclass(frozen=True)
class Study:
    """The comparison of the strategies over all weeks."""

    model: str
    table: str
    """Published table of the dataset."""
    snapshot_id: int
    """Snapshot of the lake at which the rows were read."""
    weeks: Sequence[Week]
    strategies: Sequence[Strategy]
    timeline: Sequence[TimelineEvent]
    metric: PrimaryMetric = AUC
    """Metric by which the strategies are compared."""


def compare_strategies(weeks: Sequence[Week], name: str, other_name: str, metric: PrimaryMetric = AUC) -> Gain | None:
    """Compare the weekly values of two strategies by a paired t-test; None for fewer than two weeks.

    Args:
        weeks: the weeks of the study.
        name: name of the strategy.
        other_name: name of the strategy to compare it with.
        metric: metric of the values.
    """
    values, other_values = ([week.values[strategy] for week in weeks] for strategy in (name, other_name))
    return compare_values(metric, values, other_values)


def run_study(name: str, dataset: Dataset, first: dt.date, last: dt.date | None) -> Study:
    """Compare the strategies: score each day from `first` to `last` by the version that served on it in each strategy.

    Args:
        name: registered model.
        dataset: dataset of the model.
        first: first day. The version that serves on this day is the one with the latest as_of, among the versions that
            were ever promoted and have an as_of of this day or earlier.
        last: last day; None: the last published day.

    Raises:
        SpecError: the partitions of the dataset are months. A retry cannot help.
        DataError: no promoted version has the first day or an earlier day as its as_of, no day from `first` to `last`
            is published, or the metric cannot be computed for any week. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    refuse_monthly_partitions(dataset, "the study of the loop")
    registry, lake, history = Registry.open(), Lake.open(), Journal.open().read_state(name)
    metric = PRIMARY_METRICS[dataset.task]
    days = sorted(
        day for day in lake.count_rows_by_day(dataset.table) if day >= first and (last is None or day <= last)
    )
    if not days:
        raise DataError(f"{dataset.table} has no day from {first} to {last or 'now'}.", "Publish or choose other days.")
    strategies = list_strategies(registry, name, history, first, days[-1])
    snapshot_id = lake.pin_window(dataset.table, days[0], days[-1])
    versions = {served_version.version for strategy in strategies for served_version in strategy.serving_versions}
    scorers = {version: load_scorer(registry.get_version(name, version)) for version in versions}
    weeks = []
    for span in _list_week_spans(days):
        frame = build_labelled_rows(dataset, lake.read_window(dataset.table, span.first, span.last, snapshot_id))
        if week := score_week(span, frame, dataset.label, strategies, scorers, metric):
            weeks.append(week)
    if not weeks:
        raise DataError(
            f"no week of {dataset.table} can be measured: its labels are too few or all equal.", "Choose other days."
        )
    timeline = _build_timeline(registry, name, history, first, days[-1])
    return Study(name, dataset.table, snapshot_id, weeks, strategies, timeline, metric)


def _list_promoted_versions(name: str) -> set[str]:
    events = Lifecycle.open().read_state(name).events
    return {event.version for event in events if event.kind is LifecycleKind.PROMOTED}


def list_strategies(registry: Registry, name: str, history: History, first: dt.date, last: dt.date) -> list[Strategy]:
    """List the three strategies with their results.

    All begin with the same version: the one with the latest as_of, among the versions that were ever promoted and have
    an as_of of `first` or earlier.

    Raises:
        DataError: there is no such version. A retry cannot help.
    """
    versions = {str(version.version): version for version in registry.list_versions(name)}
    promoted_versions = _list_promoted_versions(name) & versions.keys()
    earlier_champions = sorted(
        (read_as_of(versions[number]), int(number))
        for number in promoted_versions
        if read_as_of(versions[number]) <= first
    )
    if not earlier_champions:
        raise DataError(f"{name} has no promoted version with an as_of of {first} or before.", "Choose a later --from.")
    first_version = str(earlier_champions[-1][1])
    first_run, costs = versions[first_version].tags.get("leeway.dag_run", ""), _sum_cost_by_run()

    def build_strategy(strategy_name: str, rule: str, triggers: Iterable[str]) -> Strategy:
        trainings = [
            training
            for training in history.trainings.values()
            if training.trigger in triggers and first < training.as_of <= last
        ]
        trainings.sort(key=lambda training: (training.as_of, training.at))
        served_versions = [
            ServedVersion(training.version, training.as_of)
            for training in trainings
            if training.outcome == "passed"
            and training.version in (promoted_versions if strategy_name == DRIFT_STRATEGY else versions)
        ]
        runs = [first_run, *(training.run for training in trainings)]
        known_costs = [costs[run] for run in runs if run in costs]
        cost = sum(known_costs) if len(known_costs) == len(runs) else None
        return Strategy(strategy_name, rule, [ServedVersion(first_version, first), *served_versions], runs, cost)

    return [build_strategy(*strategy) for strategy in STRATEGIES]


def score_week(
    days: Days,
    frame: pd.DataFrame,
    label: str,
    strategies: Sequence[Strategy],
    scorers: Mapping[str, Scorer],
    metric: PrimaryMetric = AUC,
) -> Week | None:
    """Measure each strategy in a week; return None if the metric cannot be computed.

    Args:
        days: the days of the week.
        frame: `date`, features and label of the labelled rows of these days.
        label: name of the label's column.
        strategies: the strategies; they say which version scores which day.
        scorers: maps each version to the function that scores rows.
        metric: metric to compute.
    """
    labels = frame[label]
    row_days = pd.to_datetime(frame[DATE_COLUMN]).dt.date
    row_versions = {strategy.name: [strategy.find_version_on(day) for day in row_days] for strategy in strategies}
    served_versions = {version for versions in row_versions.values() for version in versions}
    row_values = {version: metric.measure_rows(labels, scorers[version](frame)) for version in served_versions}
    values = {}
    for name, versions in row_versions.items():
        served_values = np.asarray([row_values[version][row] for row, version in enumerate(versions)])
        value = metric.compute_from_rows(labels, served_values)
        if value is None:
            log.warning("%s: its %d labels are too few or all equal, so the week is left out", days, len(labels))
            return None
        values[name] = value
    log.info("%s: %d rows, scored by %d versions", days, len(labels), len(row_values))
    return Week(days, len(labels), values)


def _list_week_spans(days: Sequence[dt.date]) -> Iterator[Days]:
    first = days[0]
    while first <= days[-1]:
        yield Days(first, min(first + (WEEK_DAYS - 1) * DAY, days[-1]))
        first += WEEK_DAYS * DAY


def _sum_cost_by_run() -> dict[str, float]:
    """Sum the cost of each DAG run, USD."""
    costs: dict[str, float] = {}
    for row in Ledger.open().read_rows():
        run = f"{row['dag_id']}/{row['run_id']}"
        costs[run] = costs.get(run, 0.0) + row["cost_usd"]
    return costs


def _build_timeline(
    registry: Registry, name: str, history: History, first: dt.date, last: dt.date
) -> list[TimelineEvent]:
    """List the events of trainings with the trigger `drift`, the resets, and the changes of the champion, by as_of."""
    timeline, day = [], first
    for event in history.events:
        day = event.as_of or day  # a reset has no as_of: it gets the as_of of the event before
        if event.trigger == "drift" or event.kind is Kind.RESET:
            text = f"{event.guard}: {event.why}" if event.guard else event.reason or event.why
            timeline.append(TimelineEvent(day, event.outcome or str(event.kind), text))
    as_of_by_version = {str(version.version): read_as_of(version) for version in registry.list_versions(name)}
    timeline += [
        TimelineEvent(
            as_of_by_version[event.version],
            str(event.kind),
            f"version {event.from_version or 'none'} to {event.to_version or 'none'}",
        )
        for event in Lifecycle.open().read_state(name).events
        if event.changes_champion and event.version in as_of_by_version
    ]
    return sorted((event for event in timeline if first <= event.day <= last), key=lambda event: event.day)
