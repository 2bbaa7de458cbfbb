"""Export the states of models as metrics in Prometheus' text format."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pipelines.lake.cached import CachedLake
from pipelines.partitions import get_date, parse_partition
from pipelines.status.documents.models import HEALTHS, ModelSummary, Performance
from pipelines.status.inputs import StatusInputs
from pipelines.status.metrics.costs import CostCollector
from pipelines.status.model_documents import build_summary
from pipelines.system.error_translation import translate_error
from pipelines.system.log import log

READ_AT = "leeway_models_read_timestamp_seconds"
"""Name of the metric with the time at which the states were read. To notice that reading stopped, alert on the age
of this time."""


class StatusCollector(Collector):
    """Collect metrics from the states of models that `refresh` read last.

    Args:
        models: registered models.
        lake: lake to read.
        read: reads the state of a model, as a `ModelSummary`. If it raises an error, the error is logged, and the model
            has only the metric `leeway_model_status_readable`, with the value 0.
        costs: collector of the costs of the same lake, which is refreshed after the models; None: there are no metrics
            of costs.
    """

    def __init__(
        self,
        models: Iterable[str],
        lake: CachedLake,
        read: Callable[[StatusInputs, str], ModelSummary] = build_summary,
        costs: CostCollector | None = None,
    ) -> None:
        self._models, self._lake, self._read, self._costs = list(models), lake, read, costs
        self._summaries: Mapping[str, ModelSummary | None] = {}
        self._read_at: dt.datetime | None = None

    def refresh(self) -> None:
        """Read the states of all models again. If the lake does not answer, all models are unreadable."""
        try:
            self._lake.refresh()
        except Exception as error:
            log.error("the states of the models cannot be read: %s", translate_error(error))
            self._summaries = dict.fromkeys(self._models)
            if self._costs:
                self._costs.clear()
            return
        inputs = StatusInputs(self._lake)
        self._summaries = {model: self._read_or_log_error(inputs, model) for model in self._models}
        self._read_at = dt.datetime.now(dt.UTC)
        if self._costs:
            self._costs.refresh()

    def refresh_forever(self, interval_s: float) -> None:
        """Wait for `interval_s` seconds and read the states again, until the process ends."""
        while True:
            time.sleep(interval_s)
            self.refresh()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics of all models."""
        metrics = _create_metrics()
        if self._read_at:
            metrics[READ_AT].add_metric([], self._read_at.timestamp())
        for model, summary in self._summaries.items():
            metrics["leeway_model_status_readable"].add_metric([model], float(summary is not None))
            if summary:
                _add_summary(metrics, summary)
        return [*metrics.values(), *(self._costs.collect() if self._costs else ())]

    def _read_or_log_error(self, inputs: StatusInputs, model: str) -> ModelSummary | None:
        try:
            return self._read(inputs, model)
        except Exception as error:  # a lake that does not answer must not end the server that exports the metrics
            log.error("the state of model %s cannot be read: %s", model, translate_error(error))
            return None


def format_metrics(collector: Collector) -> str:
    """Return the metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def _create_metrics() -> dict[str, GaugeMetricFamily]:
    """Create all metrics, without values, by name."""
    metrics = [
        GaugeMetricFamily(READ_AT, "When the states of the models were read."),
        _create_gauge("status_readable", "1 if the state of the model could be read, else 0."),
        _create_gauge("health", "1 for the health of the model, 0 for the others.", "health"),
        _create_gauge("champion", "1 for the version that is champion.", "version"),
        _create_gauge("champion_since_timestamp_seconds", "When the version became champion."),
        _create_gauge("drifted", "1 if the last drift decision about the champion is an alarm, else 0."),
        _create_gauge("performance", "Value of the primary metric in the last week with labels.", "metric"),
        _create_gauge("performance_low", "Lower end of the 95 % interval of the performance.", "metric"),
        _create_gauge("performance_high", "Upper end of the 95 % interval of the performance.", "metric"),
        _create_gauge("performance_week_timestamp_seconds", "Start of the week of the performance, UTC."),
        _create_gauge("newest_partition_timestamp_seconds", "Start of the day of the newest published partition, UTC."),
        _create_gauge("last_publication_timestamp_seconds", "When the published data last changed."),
        _create_gauge("last_training_timestamp_seconds", "When the last training was started."),
        _create_gauge("endpoint", "1 for the version that an endpoint serves.", "endpoint", "version"),
        _create_gauge("month_cost_usd", "Cost of the model in the current month, USD."),
        _create_gauge("project_month_cost_usd", "Cost of the model's project in the current month, USD."),
        _create_gauge("project_month_budget_usd", "Budget of the current month for the model's project, USD."),
    ]
    return {metric.name: metric for metric in metrics}


def _create_gauge(name: str, description: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"leeway_model_{name}", description, labels=("model", *labels))


def _add_summary(metrics: Mapping[str, GaugeMetricFamily], summary: ModelSummary) -> None:
    """Add the values of a model. An unknown value is left out, because 0 would be taken for a known value."""
    values = {
        "champion_since_timestamp_seconds": _get_seconds(summary.champion_since),
        "drifted": float(summary.drift.outcome == "drift") if summary.drift else None,
        "newest_partition_timestamp_seconds": _get_seconds(_get_start(summary.newest_partition)),
        "last_publication_timestamp_seconds": _get_seconds(summary.published_at),
        "last_training_timestamp_seconds": _get_seconds(summary.last_training.at if summary.last_training else None),
        "month_cost_usd": summary.month_usd,
        "project_month_cost_usd": summary.project_month_usd,
        "project_month_budget_usd": summary.budget_usd,
    }
    for name, value in values.items():
        if value is not None:
            metrics[f"leeway_model_{name}"].add_metric([summary.model], value)
    if summary.performance:
        _add_performance(metrics, summary.model, summary.performance)
    for health in HEALTHS:
        metrics["leeway_model_health"].add_metric([summary.model, health], float(health == summary.health))
    if summary.champion:
        metrics["leeway_model_champion"].add_metric([summary.model, summary.champion], 1)
    for endpoint, version in summary.endpoints.items():
        metrics["leeway_model_endpoint"].add_metric([summary.model, endpoint, version], 1)


def _add_performance(metrics: Mapping[str, GaugeMetricFamily], model: str, performance: Performance) -> None:
    """Add the performance of the last week with labels."""
    week = performance.weeks[-1]
    for name, value in (("", week.value), ("_low", week.low), ("_high", week.high)):
        if value is not None:
            metrics[f"leeway_model_performance{name}"].add_metric([model, performance.metric], value)
    start = dt.datetime.combine(week.week, dt.time(), dt.UTC)
    metrics["leeway_model_performance_week_timestamp_seconds"].add_metric([model], start.timestamp())


def _get_start(partition: str) -> dt.datetime | None:
    """Return the start of a partition's day, UTC; None if there is no partition."""
    return dt.datetime.combine(get_date(parse_partition(partition)), dt.time(), dt.UTC) if partition else None


def _get_seconds(moment: dt.datetime | None) -> float | None:
    """Return seconds since the epoch; None if there is no moment."""
    return moment.timestamp() if moment else None
