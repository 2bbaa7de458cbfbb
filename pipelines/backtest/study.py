"""Compare three ways of retraining, with the models that a backfill of the training left behind.

Each model is scored on the months after it. No result depends on the future: a month is scored only by models that were
trained as of its first day or before, and a decision in a month uses only labels that were known when the month began.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ibis
import pandas as pd
from sklearn.metrics import roc_auc_score

from pipelines.costs.ledger import Ledger
from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features.building import build_labelled
from pipelines.lake import PARTITION, Lake
from pipelines.registry.scorer import load_scorer
from pipelines.registry.versions import Registry, read_as_of
from pipelines.system.log import log
from pipelines.window import DAY, Days

Scorer = Callable[[pd.DataFrame], Any]
_HOLDOUT = "holdout_auc"


@dataclass(frozen=True)
class TrainedModel:
    """A model version of the backfill."""

    version: str
    as_of: dt.date
    passed: bool
    """Whether it passed the gate. A model that did not pass is never the serving one."""
    holdout_auc: float
    cost_usd: float | None
    """Cost of its run in the ledger; None where the ledger has no such run."""


@dataclass(frozen=True)
class Month:
    """A month of published rows, scored by every model from before it."""

    days: Days
    rows: int
    """Labelled rows."""
    auc: Mapping[str, float]
    """Version to its AUC over the month; models that did not pass the gate are included."""
    known_auc: Mapping[str, float]
    """Version to its AUC over the days whose labels were known when the next month began."""


@dataclass(frozen=True)
class Strategy:
    """A way of retraining, and what it would have led to."""

    name: str
    rule: str
    served: Sequence[TrainedModel]
    """For each month, the model that would have served."""
    trained: Sequence[TrainedModel]
    """Every model that would have been trained; models that did not pass the gate are included."""

    def list_monthly_auc(self, months: Sequence[Month]) -> list[float]:
        """List the AUC of the serving model for each month."""
        return [month.auc[model.version] for month, model in zip(months, self.served, strict=True)]

    @property
    def cost_usd(self) -> float | None:
        """Cost of all its trainings; None where the ledger lacks one of them."""
        costs = [model.cost_usd for model in self.trained]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


@dataclass(frozen=True)
class Study:
    """A finished backtest."""

    model: str
    table: str
    snapshot_id: int
    """Snapshot of the lake at which the months were read."""
    models: Sequence[TrainedModel]
    months: Sequence[Month]
    strategies: Sequence[Strategy]


def list_models(registry: Registry, name: str, charges: Sequence[Mapping[str, Any]]) -> list[TrainedModel]:
    """List the trained models of `name`, oldest as_of first; for each as_of, only the newest version.

    Args:
        registry: registry of the model.
        name: registered model.
        charges: rows of the cost ledger.
    """
    costs: dict[str, float] = {}
    for row in charges:
        run = f"{row['dag_id']}/{row['run_id']}"
        costs[run] = costs.get(run, 0.0) + row["cost_usd"]
    models = {}
    for version in registry.list_versions(name):
        auc = registry.get_metrics(version).get(_HOLDOUT)
        if "leeway.as_of" in version.tags and auc is not None:
            passed = version.tags.get("leeway.verdict") == "passed"
            cost = costs.get(version.tags.get("leeway.dag_run", ""))
            models[read_as_of(version)] = TrainedModel(str(version.version), read_as_of(version), passed, auc, cost)
    return [models[moment] for moment in sorted(models)]


def run_study(
    name: str, dataset: Dataset, first: dt.date | None, last: dt.date | None, label_delay_days: int, drop: float
) -> Study:
    """Score the models of a backfill on the months from `first` to `last`, and compare the three strategies.

    Args:
        name: registered model.
        dataset: dataset of the model.
        first: the first month begins on this day or later; None: the as_of of the first model.
        last: last day; None: the last published day.
        label_delay_days: days until a label is known, as in the step `snapshot`.
        drop: the strategy "on drift" trains again when the AUC is lower than the holdout's by more than this.

    Raises:
        DataError: no model passed the gate, or no day is published after it. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    registry, lake = Registry.open(), Lake.open()
    models = list_models(registry, name, Ledger.open().read_rows())
    usable = [model for model in models if model.passed]
    if not usable:
        raise DataError(
            f"the registry has no version of {name} that passed the gate.",
            "Backfill flights_train first; docs/how-to/backfills.md tells how.",
        )
    spans = _list_months(lake, dataset, name, max(first or usable[0].as_of, usable[0].as_of), last)
    snapshot_id = lake.pin_window(dataset.published, spans[0].first, spans[-1].last)
    scorers = {model.version: load_scorer(registry.get_version(name, model.version)) for model in models}
    months = []
    for days in spans:
        rows = lake.read_window(dataset.published, days.first, days.last, snapshot_id)
        earlier = {model.version: scorers[model.version] for model in models if model.as_of <= days.first}
        if month := _score_month(dataset, read_labelled_rows(dataset, rows), days, earlier, label_delay_days):
            months.append(month)
    if not months:
        raise DataError(f"no month of {dataset.published} has labels of both kinds.", "Nothing can be measured.")
    return Study(name, dataset.published, snapshot_id, models, months, compare_strategies(models, months, drop))


def _list_months(lake: Lake, dataset: Dataset, name: str, first: dt.date, last: dt.date | None) -> list[Days]:
    """List the published months that begin on `first` or later.

    Raises:
        DataError: there are none.
    """
    spans = list(_list_month_spans(lake.count_rows_by_day(dataset.published), first, last))
    if not spans:
        raise DataError(
            f"{dataset.published} has no day in a month that begins on {first} or later, for {name} to score.",
            "Publish the days after the first model, or choose other days.",
        )
    return spans


def compare_strategies(models: Sequence[TrainedModel], months: Sequence[Month], drop: float) -> list[Strategy]:
    """List the three strategies of retraining. All begin with the same model."""
    begin = _find_newest_passed(models, months[0].days.first)
    end = months[-1].days.first
    monthly = [_find_newest_passed(models, month.days.first) for month in months]
    all_models = [model for model in models if begin.as_of <= model.as_of <= end]
    served, trained = _retrain_on_drift(models, months, begin, drop)
    rule = (
        f"trained again when the model's own AUC of the month before was more than {drop:g} below that of its holdout, "
        "by the labels known at the month's end"
    )
    return [
        Strategy("retrain monthly", "trained again before every month", monthly, all_models),
        Strategy("never retrain", "the first model serves throughout", [begin] * len(months), [begin]),
        Strategy("on drift", rule, served, trained),
    ]


def _retrain_on_drift(
    models: Sequence[TrainedModel], months: Sequence[Month], begin: TrainedModel, drop: float
) -> tuple[list[TrainedModel], list[TrainedModel]]:
    """Return the model that serves in each month, and all models that are trained."""
    serving, served, trained = begin, [begin], [begin]
    for before, month in pairwise(months):
        newer = [model for model in models if trained[-1].as_of < model.as_of <= month.days.first]
        if newer and before.known_auc.get(serving.version, 1.0) < serving.holdout_auc - drop:
            trained.append(newer[-1])
            serving = newer[-1] if newer[-1].passed else serving
        served.append(serving)
    return served, trained


def _find_newest_passed(models: Sequence[TrainedModel], moment: dt.date) -> TrainedModel:
    return [model for model in models if model.passed and model.as_of <= moment][-1]


def _list_month_spans(published: Mapping[dt.date, int], first: dt.date, last: dt.date | None) -> Iterator[Days]:
    """Yield the months that begin on `first` or later, each up to its last published day."""
    days = [day for day in published if day.replace(day=1) >= first and (last is None or day <= last)]
    for begin in sorted({day.replace(day=1) for day in days}):
        yield Days(begin, max(day for day in days if day.replace(day=1) == begin))


def read_labelled_rows(dataset: Dataset, rows: Any) -> pd.DataFrame:
    """Build the features and the label of all published rows whose label is known, as `preprocess` does.

    Args:
        dataset: the dataset.
        rows: published rows, an Arrow table.
    """
    frame: pd.DataFrame = build_labelled(dataset, ibis.memtable(rows)).to_pandas()
    return frame


def _score_month(
    dataset: Dataset, frame: pd.DataFrame, days: Days, scorers: Mapping[str, Scorer], label_delay_days: int
) -> Month | None:
    """Score the month with every model; None where all its labels are the same."""
    label = frame[dataset.label].to_numpy(dtype=bool)
    next_month = (days.first + 31 * DAY).replace(day=1)
    known = (pd.to_datetime(frame[PARTITION]) <= pd.Timestamp(next_month - (label_delay_days + 1) * DAY)).to_numpy()
    if label.all() or not label.any():
        log.warning("%s: all %d labels are the same, so nothing is measured", days, len(label))
        return None
    auc, known_auc = {}, {}
    for version, scorer in scorers.items():
        score = scorer(frame)
        auc[version] = float(roc_auc_score(label, score))
        if 0 < label[known].sum() < known.sum():
            known_auc[version] = float(roc_auc_score(label[known], score[known]))
    log.info("%s: %d rows, scored by %d models", days, len(label), len(auc))
    return Month(days, len(label), auc, known_auc)
