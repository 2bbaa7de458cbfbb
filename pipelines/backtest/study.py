"""What would have happened: the models that a backfill of the training left, each scored on the months after it.

As-of here too: a month is scored only by models that were trained as of its first day or before, and what decides in a
month is what was known when it began.
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
from pipelines.registry.versions import Registry, as_of
from pipelines.system.log import log
from pipelines.window import DAY, Days

Scorer = Callable[[pd.DataFrame], Any]
_HOLDOUT = "holdout_auc"


@dataclass(frozen=True)
class Trained:
    """A model of the backtest."""

    version: str
    as_of: dt.date
    passed: bool
    """Whether the gate let it pass; one that did not serves nobody."""
    holdout_auc: float
    cost_usd: float | None
    """By the ledger; None where that does not know its run."""


@dataclass(frozen=True)
class Month:
    """A month of published rows, scored by every model of before it."""

    days: Days
    rows: int
    """Labelled rows."""
    auc: Mapping[str, float]
    """Version to its AUC over the month, of models that the gate refused too."""
    known: Mapping[str, float]
    """The same over the days whose labels were known when the next month began."""


@dataclass(frozen=True)
class Course:
    """How a way of retraining would have gone."""

    name: str
    rule: str
    served: Sequence[Trained]
    """The model that served, month by month."""
    trained: Sequence[Trained]
    """Every model that had to be trained, those that the gate refused too."""

    def auc(self, months: Sequence[Month]) -> list[float]:
        """AUC of each month."""
        return [month.auc[model.version] for month, model in zip(months, self.served, strict=True)]

    @property
    def cost_usd(self) -> float | None:
        """Of all its trainings; None where the ledger lacks one."""
        costs = [one.cost_usd for one in self.trained]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


@dataclass(frozen=True)
class Study:
    """A finished backtest."""

    model: str
    table: str
    snapshot_id: int
    """The lake's snapshot that the months were read at."""
    models: Sequence[Trained]
    months: Sequence[Month]
    courses: Sequence[Course]


def trained(registry: Registry, name: str, rows: Sequence[Mapping[str, Any]]) -> list[Trained]:
    """The models of registered model `name`, by their moment; of two of one moment the newer version.

    Args:
        registry: where they are.
        name: the registered model.
        rows: of the ledger.
    """
    costs: dict[str, float] = {}
    for row in rows:
        run = f"{row['dag_id']}/{row['run_id']}"
        costs[run] = costs.get(run, 0.0) + row["cost_usd"]
    found = {}
    for version in registry.versions(name):
        auc = registry.metrics(version).get(_HOLDOUT)
        if "leeway.as_of" in version.tags and auc is not None:
            passed = version.tags.get("leeway.verdict") == "passed"
            cost = costs.get(version.tags.get("leeway.dag_run", ""))
            found[as_of(version)] = Trained(str(version.version), as_of(version), passed, auc, cost)
    return [found[moment] for moment in sorted(found)]


def study(
    name: str, chosen: Dataset, first: dt.date | None, last: dt.date | None, label_delay_days: int, drop: float
) -> Study:
    """The backtest of the months from `first` to `last`.

    Args:
        name: registered model.
        chosen: its dataset.
        first: day that the first month begins on, or follows; that of the first model where it is None.
        last: last day; the last published where it is None.
        label_delay_days: as `snapshot` has it.
        drop: AUC below its holdout's, after which "on drift" trains again.

    Raises:
        DataError: no model passed its gate, or nothing is published after it.
        ServiceError: MLflow does not answer. A retry can help.
    """
    registry, lake = Registry.open(), Lake.open()
    models = trained(registry, name, Ledger.open().rows())
    usable = [one for one in models if one.passed]
    if not usable:
        raise DataError(
            f"the registry has no version of {name} that passed the gate.",
            "Backfill flights_train first; docs/how-to/backfills.md tells how.",
        )
    spans = list(_spans(lake.count_rows_by_day(chosen.published), max(first or usable[0].as_of, usable[0].as_of), last))
    if not spans:
        raise DataError(
            f"{chosen.published} has no day in a month that begins at {usable[0].as_of} or later, for {name} to score.",
            "Publish the days after the first model, or choose other days.",
        )
    pinned = lake.pin_window(chosen.published, spans[0].first, spans[-1].last)
    scorers = {one.version: registry.scorer(registry.version(name, one.version)) for one in models}
    months = []
    for days in spans:
        frame = labelled_rows(chosen, lake.read_window(chosen.published, days.first, days.last, pinned))
        able = {one.version: scorers[one.version] for one in models if one.as_of <= days.first}
        if month := _scored(chosen, frame, days, able, label_delay_days):
            months.append(month)
    if not months:
        raise DataError(f"no month of {chosen.published} has labels of both kinds.", "Nothing can be measured.")
    return Study(name, chosen.published, pinned, models, months, courses(models, months, drop))


def courses(models: Sequence[Trained], months: Sequence[Month], drop: float) -> list[Course]:
    """The three ways to go about retraining, all from the same first model."""
    begin = _newest(models, months[0].days.first)
    ended = months[-1].days.first
    monthly = [_newest(models, month.days.first) for month in months]
    every = [one for one in models if begin.as_of <= one.as_of <= ended]
    served, needed = _on_drift(models, months, begin, drop)
    rule = (
        f"trained again when the model's own AUC of the month before was more than {drop:g} below that of its holdout, "
        "by the labels known at the month's end"
    )
    return [
        Course("retrain monthly", "trained again before every month", monthly, every),
        Course("never retrain", "the first model serves throughout", [begin] * len(months), [begin]),
        Course("on drift", rule, served, needed),
    ]


def _on_drift(
    models: Sequence[Trained], months: Sequence[Month], begin: Trained, drop: float
) -> tuple[list[Trained], list[Trained]]:
    """Who served month by month, and what was trained."""
    serving, served, needed = begin, [begin], [begin]
    for before, month in pairwise(months):
        fresh = [one for one in models if needed[-1].as_of < one.as_of <= month.days.first]
        if fresh and before.known.get(serving.version, 1.0) < serving.holdout_auc - drop:
            needed.append(fresh[-1])
            serving = fresh[-1] if fresh[-1].passed else serving
        served.append(serving)
    return served, needed


def _newest(models: Sequence[Trained], moment: dt.date) -> Trained:
    return [one for one in models if one.passed and one.as_of <= moment][-1]


def _spans(published: Mapping[dt.date, int], first: dt.date, last: dt.date | None) -> Iterator[Days]:
    """The months that begin at `first` or later, each to its last published day."""
    days = [day for day in published if day.replace(day=1) >= first and (last is None or day <= last)]
    for begin in sorted({day.replace(day=1) for day in days}):
        yield Days(begin, max(day for day in days if day.replace(day=1) == begin))


def labelled_rows(chosen: Dataset, rows: Any) -> pd.DataFrame:
    """The features of published rows whose label is known, with that label, as `preprocess` builds them."""
    frame: pd.DataFrame = build_labelled(chosen, ibis.memtable(rows)).to_pandas()
    return frame


def _scored(
    chosen: Dataset, frame: pd.DataFrame, days: Days, scorers: Mapping[str, Scorer], label_delay_days: int
) -> Month | None:
    """The month; None where one kind of label is all it has."""
    label = frame[chosen.label].to_numpy(dtype=bool)
    following = (days.first + 31 * DAY).replace(day=1)
    known = (pd.to_datetime(frame[PARTITION]) <= pd.Timestamp(following - (label_delay_days + 1) * DAY)).to_numpy()
    if label.all() or not label.any():
        log.warning("%s: all %d labels are the same, so nothing is measured", days, len(label))
        return None
    auc, early = {}, {}
    for version, score in scorers.items():
        told = score(frame)
        auc[version] = float(roc_auc_score(label, told))
        if 0 < label[known].sum() < known.sum():
            early[version] = float(roc_auc_score(label[known], told[known]))
    log.info("%s: %d rows, scored by %d models", days, len(label), len(auc))
    return Month(days, len(label), auc, early)
