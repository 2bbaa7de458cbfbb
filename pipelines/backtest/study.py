"""Compare three retraining strategies, using the models that a backfill of the training DAG registered.

Each model is scored on the months after its as_of. No result depends on the future: a model scores a month only if its
as_of is the month's first day or earlier, and a decision in a month uses only labels that were known when the month
began.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ibis
import pandas as pd

from pipelines.backtest.primary import AUC, PRIMARY_METRICS, PrimaryMetric
from pipelines.costs.ledger import Ledger
from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features.building import build_labelled_features
from pipelines.lake import DATE_COLUMN, Lake
from pipelines.partitions import refuse_monthly_partitions
from pipelines.registry.scorer import load_scorer
from pipelines.registry.versions import Registry, read_as_of
from pipelines.system.log import log
from pipelines.window import DAY, Days

NEVER_STRATEGY = "never retrain"
"""Name of the strategy without any retraining, as the report shows it."""
Scorer = Callable[[pd.DataFrame], Any]
"""Function that scores rows of features, and returns what the model returns."""
NO_MODEL_HINT = "Backfill its training DAG first, as in docs/how-to/backfills.md."


@dataclass(frozen=True)
class BackfilledModel:
    """A model version with an as_of and with the primary metric on its holdout, such as one that a backfill registered.

    Other trainings with an as_of can have registered it, too.
    """

    version: str
    as_of: dt.date
    has_passed: bool
    """Whether the model passed the gate. A model that did not pass never serves."""
    holdout_value: float
    """The primary metric on the holdout."""
    cost_usd: float | None
    """Cost of all jobs of the DAG run that registered the version; None if the ledger has no job of this run."""


@dataclass(frozen=True)
class Month:
    """A month of published rows, scored by every model whose as_of is the month's first day or earlier."""

    days: Days
    rows: int
    """Labelled rows."""
    values: Mapping[str, float]
    """Maps each version to its primary metric over the month. Models that did not pass the gate are included."""
    known_values: Mapping[str, float]
    """Like `values`, but only over the days whose labels were known when the next month began."""


@dataclass(frozen=True)
class Strategy:
    """A retraining strategy, and the models that would have been trained and served with it."""

    name: str
    rule: str
    """When the strategy trains, in words."""
    serving_models: Sequence[BackfilledModel]
    """For each month, the model that would have served."""
    trained_models: Sequence[BackfilledModel]
    """Every model that would have been trained. Models that did not pass the gate are included."""

    def list_monthly_values(self, months: Sequence[Month]) -> list[float]:
        """List the primary metric of the serving model for each month."""
        return [month.values[model.version] for month, model in zip(months, self.serving_models, strict=True)]

    @property
    def cost_usd(self) -> float | None:
        """Cost of all trainings of the strategy; None if the ledger lacks one of them."""
        costs = [model.cost_usd for model in self.trained_models]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


@dataclass(frozen=True)
class Backtest:
    """The result of a backtest."""

    model: str
    table: str
    snapshot_id: int
    """Snapshot of the lake at which the months were read."""
    models: Sequence[BackfilledModel]
    months: Sequence[Month]
    strategies: Sequence[Strategy]
    metric: PrimaryMetric = AUC
    """Metric by which the strategies are compared."""


def list_models(
    registry: Registry, name: str, charges: Sequence[Mapping[str, Any]], metric: PrimaryMetric = AUC
) -> list[BackfilledModel]:
    """List the versions with an as_of and a holdout metric, oldest as_of first; for each as_of only the newest version.

    The versions need not come from a backfill.

    Args:
        registry: registry of the model.
        name: name of the registered model.
        charges: rows of the cost ledger.
        metric: metric by which the models are compared.
    """
    costs: dict[str, float] = {}
    for row in charges:
        run = f"{row['dag_id']}/{row['run_id']}"
        costs[run] = costs.get(run, 0.0) + row["cost_usd"]
    models = {}
    for version in registry.list_versions(name):
        value = registry.get_metrics(version).get(f"holdout_{metric.name}")
        if "leeway.as_of" in version.tags and value is not None:
            has_passed = version.tags.get("leeway.verdict") == "passed"
            cost = costs.get(version.tags.get("leeway.dag_run", ""))
            models[read_as_of(version)] = BackfilledModel(
                str(version.version), read_as_of(version), has_passed, value, cost
            )
    return [models[as_of] for as_of in sorted(models)]


def run_backtest(
    name: str, dataset: Dataset, first: dt.date | None, last: dt.date | None, label_delay_days: int, drop: float | None
) -> Backtest:
    """Score the models of a backfill on the months from `first` to `last`, and compare the three strategies.

    Args:
        name: name of the registered model.
        dataset: dataset of the model.
        first: earliest day on which a month may begin; the as_of of the first model that passed the gate, if this is
            later. None: this as_of.
        last: last day; None: the last published day.
        label_delay_days: number of days until a label is known, as in the step `snapshot`.
        drop: how much worse than on the holdout the primary metric must be before the strategy "on drift" trains
            again: a difference of AUC or accuracy, or a share of the mean absolute error. None: the task's default.

    Raises:
        SpecError: the partitions of the dataset are months. A retry cannot help.
        DataError: no model passed the gate, or the metric cannot be computed for any month. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    refuse_monthly_partitions(dataset, "the backtest")
    registry, lake, metric = Registry.open(), Lake.open(), PRIMARY_METRICS[dataset.task]
    models = list_models(registry, name, Ledger.open().read_rows(), metric)
    passed_models = [model for model in models if model.has_passed]
    if not passed_models:
        raise DataError(f"the registry has no version of {name} that passed the gate.", NO_MODEL_HINT)
    first_as_of = passed_models[0].as_of
    spans = _list_months(lake, dataset, name, max(first or first_as_of, first_as_of), last)
    snapshot_id = lake.pin_window(dataset.table, spans[0].first, spans[-1].last)
    scorers = {model.version: load_scorer(registry.get_version(name, model.version)) for model in models}
    months = []
    for days in spans:
        earlier_scorers = {model.version: scorers[model.version] for model in models if model.as_of <= days.first}
        frame = build_labelled_rows(dataset, lake.read_window(dataset.table, days.first, days.last, snapshot_id))
        if month := _score_month(dataset, frame, days, earlier_scorers, label_delay_days):
            months.append(month)
    if not months:
        raise _make_label_error(dataset, metric)
    strategies = build_strategies(models, months, metric.default_drop if drop is None else drop, metric)
    return Backtest(name, dataset.table, snapshot_id, models, months, strategies, metric)


def _make_label_error(dataset: Dataset, metric: PrimaryMetric) -> DataError:
    return DataError(
        f"the {metric.title} cannot be computed for any month of {dataset.table}: its labels are too few or all equal.",
        "Publish more days, or choose other days.",
    )


def _list_months(lake: Lake, dataset: Dataset, name: str, first: dt.date, last: dt.date | None) -> list[Days]:
    """List the published months that begin on `first` or later, each up to its last published day, at most `last`.

    Raises:
        DataError: no such month is published. A retry cannot help.
    """
    spans = list(_split_into_months(lake.count_rows_by_day(dataset.table), first, last))
    if not spans:
        raise DataError(
            f"{dataset.table} has no day that {name} could score, in a month that begins on {first} or later.",
            "Publish the days after the as_of of the first version that passed the gate, or choose other days.",
        )
    return spans


def build_strategies(
    models: Sequence[BackfilledModel], months: Sequence[Month], drop: float, metric: PrimaryMetric = AUC
) -> list[Strategy]:
    """Build the three strategies, with the models that each would have trained and served.

    All strategies begin with the same model.
    """
    first_model = _find_newest_passed_model(models, months[0].days.first)
    last_start = months[-1].days.first
    monthly_models = [_find_newest_passed_model(models, month.days.first) for month in months]
    all_models = [model for model in models if first_model.as_of <= model.as_of <= last_start]
    serving_models, trained_models = _retrain_on_drift(models, months, first_model, drop, metric)
    threshold = f"{drop:.0%}" if metric.is_relative else f"{drop:g}"
    rule = (
        f"trained again when the model's {metric.title} in the month before was more than {threshold} worse than on "
        "its holdout, by the labels that were known at the end of that month"
    )
    return [
        Strategy("retrain monthly", "trained again before every month", monthly_models, all_models),
        Strategy(NEVER_STRATEGY, "the first model serves throughout", [first_model] * len(months), [first_model]),
        Strategy("on drift", rule, serving_models, trained_models),
    ]


def _retrain_on_drift(
    models: Sequence[BackfilledModel],
    months: Sequence[Month],
    first_model: BackfilledModel,
    drop: float,
    metric: PrimaryMetric,
) -> tuple[list[BackfilledModel], list[BackfilledModel]]:
    """Apply the strategy "on drift": return the model that serves in each month, and all models that are trained."""
    serving_model, serving_models, trained_models = first_model, [first_model], [first_model]
    for previous_month, month in pairwise(months):
        newer_models = [model for model in models if trained_models[-1].as_of < model.as_of <= month.days.first]
        value = previous_month.known_values.get(serving_model.version)
        if newer_models and value is not None and metric.compute_drop(value, serving_model.holdout_value) > drop:
            trained_models.append(newer_models[-1])
            serving_model = newer_models[-1] if newer_models[-1].has_passed else serving_model
        serving_models.append(serving_model)
    return serving_models, trained_models


def _find_newest_passed_model(models: Sequence[BackfilledModel], day: dt.date) -> BackfilledModel:
    """Return the newest model that passed the gate and whose as_of is the day or earlier."""
    return [model for model in models if model.has_passed and model.as_of <= day][-1]


def _split_into_months(row_counts: Mapping[dt.date, int], first: dt.date, last: dt.date | None) -> Iterator[Days]:
    """Yield the months that begin on `first` or later, each up to its last published day, at most `last`."""
    days = [day for day in row_counts if day.replace(day=1) >= first and (last is None or day <= last)]
    for month_start in sorted({day.replace(day=1) for day in days}):
        yield Days(month_start, max(day for day in days if day.replace(day=1) == month_start))


def build_labelled_rows(dataset: Dataset, rows: Any) -> pd.DataFrame:
    """Build the features and the label of all published rows whose label is known, as `preprocess` does.

    Args:
        dataset: dataset of the rows.
        rows: published rows, an Arrow table.
    """
    frame: pd.DataFrame = build_labelled_features(dataset, ibis.memtable(rows)).to_pandas()
    return frame


def _score_month(
    dataset: Dataset, frame: pd.DataFrame, days: Days, scorers: Mapping[str, Scorer], label_delay_days: int
) -> Month | None:
    """Compute the primary metric of each model over the month; None if it cannot be computed for any model."""
    metric, labels = PRIMARY_METRICS[dataset.task], frame[dataset.label]
    next_month = (days.first + 31 * DAY).replace(day=1)
    is_known = (
        pd.to_datetime(frame[DATE_COLUMN]) <= pd.Timestamp(next_month - (label_delay_days + 1) * DAY)
    ).to_numpy()
    values, known_values = {}, {}
    for version, scorer in scorers.items():
        row_values = metric.measure_rows(labels, scorer(frame))
        value, known_value = (
            metric.compute_from_rows(labels, row_values),
            metric.compute_from_rows(labels[is_known], row_values[is_known]),
        )
        if value is not None:
            values[version] = value
        if known_value is not None:
            known_values[version] = known_value
    if not values:
        log.warning("%s: its %d labels are too few or all equal, so the month is left out", days, len(labels))
        return None
    log.info("%s: %d rows, scored by %d models", days, len(labels), len(values))
    return Month(days, len(labels), values, known_values)
