"""Describe the key figures and the daily costs of projects as metrics in Prometheus' text format."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pipelines.costs.daily.anomalies import JudgedDay, judge_days
from pipelines.costs.daily.days import sum_days_by_project
from pipelines.costs.endpoints.ledger import EndpointLedger
from pipelines.costs.figures.build import DEFINITIONS, build_key_figures
from pipelines.costs.figures.key_figure import KeyFigure, Unit
from pipelines.costs.figures.targets import Targets
from pipelines.costs.ledger import Ledger
from pipelines.costs.periods import build_last_days
from pipelines.lake.cached import CachedLake
from pipelines.system.error_translation import translate_error
from pipelines.system.log import log

DAYS = 7
"""Number of days from whose jobs the key figures are computed."""
SUFFIXES: Mapping[Unit, str] = {"share": "_ratio", "seconds": "_seconds", "usd": "", "per week": ""}
"""Maps the unit of a key figure to the end of its metric's name."""
READ_AT = "leeway_costs_read_timestamp_seconds"
"""Name of the metric with the time at which the ledgers were read."""


def get_now() -> dt.datetime:
    """Return the current moment, UTC."""
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True)
class ProjectCosts:
    """The key figures of a project in the last `DAYS` days, and the cost of its last whole day."""

    figures: Sequence[KeyFigure]
    day: JudgedDay | None
    """Cost of yesterday, UTC; None if the project has no cost before today."""


class CostCollector(Collector):
    """Collect metrics of the costs that `refresh` read last.

    Args:
        lake: lake to read. The caller must refresh it before each `refresh` of this object.
        targets: targets of the key figures.
        clock: function that returns the current moment, UTC.
    """

    def __init__(self, lake: CachedLake, targets: Targets, clock: Callable[[], dt.datetime] = get_now) -> None:
        self._lake, self._targets, self._clock = lake, targets, clock
        self._projects: Mapping[str, ProjectCosts] = {}
        self._read_at: dt.datetime | None = None

    def refresh(self) -> None:
        """Read the ledgers again. If they cannot be read, log the error and call `clear`."""
        now = self._clock()
        try:
            self._projects = read_projects(self._lake, self._targets, now)
            self._read_at = now
        except Exception as error:  # a lake that does not answer must not end the server of the metrics
            log.error("the costs cannot be read: %s", translate_error(error))
            self.clear()

    def clear(self) -> None:
        """Remove the values of all projects. The metric `READ_AT` stays: its age shows when reading stopped."""
        self._projects = {}

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics of all projects."""
        metrics = _create_metrics()
        if self._read_at:
            metrics[READ_AT].add_metric([], self._read_at.timestamp())
        for project, costs in self._projects.items():
            for figure in costs.figures:
                _add_figure(metrics, project, figure)
            if costs.day:
                _add_day(metrics, project, costs.day)
        return metrics.values()


def read_projects(lake: CachedLake, targets: Targets, now: dt.datetime) -> dict[str, ProjectCosts]:
    """Read the key figures and the last whole day of each project in the ledgers.

    Raises:
        DataError: a row of a ledger is damaged. A retry cannot help.
        ServiceError, ConflictError: the lake does not answer. A retry can help.
    """
    rows, endpoint_rows = Ledger.open(lake).read_rows(), EndpointLedger.open(lake).read_rows()
    yesterday = now.astimezone(dt.UTC).date() - dt.timedelta(days=1)
    days = sum_days_by_project((*rows, *endpoint_rows), yesterday)
    return {
        project: ProjectCosts(
            build_key_figures([row for row in rows if row["project"] == project], build_last_days(DAYS, now), targets),
            next(iter(judge_days(costs, count=1)), None),
        )
        for project, costs in days.items()
    }


def _create_metrics() -> dict[str, GaugeMetricFamily]:
    """Create all metrics, without values."""
    metrics = [
        GaugeMetricFamily(READ_AT, "When the ledgers of costs were read."),
        *(
            _create(build_metric_name(figure.name, figure.unit), f"{figure.title}: {figure.method}.")
            for figure in DEFINITIONS
        ),
        _create("leeway_key_figure_jobs", "Number of jobs or experiments behind a key figure.", "figure"),
        _create("leeway_key_figure_met", "1 if a key figure meets its target, else 0.", "figure"),
        _create("leeway_cost_day_usd", "Cost of the last whole day, UTC, in USD."),
        _create("leeway_cost_day_expected_usd", "Expected cost of that day, by the weeks before it, USD."),
        _create("leeway_cost_day_limit_usd", "Cost above which that day is an anomaly, USD."),
    ]
    return {metric.name: metric for metric in metrics}


def build_metric_name(name: str, unit: Unit) -> str:
    """Build the name of the metric of a key figure."""
    return f"leeway_key_figure_{name}{SUFFIXES[unit]}"


def _create(name: str, description: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, description, labels=("project", *labels))


def _add_figure(metrics: Mapping[str, GaugeMetricFamily], project: str, figure: KeyFigure) -> None:
    """Add the values of a key figure. An unknown value is left out, because 0 would be taken for a known value."""
    if figure.value is not None:
        metrics[build_metric_name(figure.name, figure.unit)].add_metric([project], figure.value)
        metrics["leeway_key_figure_jobs"].add_metric([project, figure.name], figure.jobs)
    if figure.is_met is not None:
        metrics["leeway_key_figure_met"].add_metric([project, figure.name], float(figure.is_met))


def _add_day(metrics: Mapping[str, GaugeMetricFamily], project: str, day: JudgedDay) -> None:
    metrics["leeway_cost_day_usd"].add_metric([project], day.usd)
    if day.expected_cost:
        metrics["leeway_cost_day_expected_usd"].add_metric([project], day.expected_cost.usd)
        metrics["leeway_cost_day_limit_usd"].add_metric([project], day.expected_cost.limit_usd)
