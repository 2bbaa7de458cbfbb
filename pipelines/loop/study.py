"""What the loop did, and what it was worth: week by week, beside never retraining and retraining by the month.

As-of throughout: a day is scored by what was trained as of it or before.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.metrics import roc_auc_score

from pipelines.backtest.study import Scorer, labelled_rows
from pipelines.costs.ledger import Ledger
from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.lake import PARTITION, Lake
from pipelines.loop.events import History, Kind
from pipelines.loop.journal import Journal
from pipelines.registry.lifecycle import Kind as Lived
from pipelines.registry.lifecycle.journal import Journal as Lifecycle
from pipelines.registry.versions import Registry, as_of
from pipelines.system.log import log
from pipelines.window import DAY, Days

NEVER, MONTHLY, DRIFT = "never retrain", "retrain monthly", "on drift"
WAYS: Sequence[tuple[str, str, Sequence[str]]] = (
    (NEVER, "the first champion serves throughout", ()),
    (
        MONTHLY,
        "trained again as of the first of each month; what its gate refuses serves nobody",
        ("backfill", "schedule"),
    ),
    (DRIFT, "what the sensor of drift started and the guards let through; only what was promoted serves", ("drift",)),
)
"""Name, rule, and what started the trainings."""
WEEK_DAYS = 7
ALPHA = 0.05


@dataclass(frozen=True)
class Served:
    """A version that served from a day on."""

    version: str
    since: dt.date


@dataclass(frozen=True)
class Course:
    """A way of retraining."""

    name: str
    rule: str
    served: Sequence[Served]
    """Oldest first; the first one served on the first day."""
    runs: Sequence[str]
    """Runs that trained, those whose model served nobody too."""
    cost_usd: float | None
    """Of these runs, by the ledger; None where it lacks one."""

    def at(self, day: dt.date) -> str:
        """The version that served on the day."""
        return [one.version for one in self.served if one.since <= day][-1]


@dataclass(frozen=True)
class Week:
    """Seven days or what is left of them."""

    days: Days
    rows: int
    """Labelled rows."""
    auc: Mapping[str, float]
    """By course."""


@dataclass(frozen=True)
class Moment:
    """Something that happened, for the time line."""

    day: dt.date
    what: str
    """started, held_back, passed, not_passed, failed, promoted, rolled_back, reset."""
    words: str


@dataclass(frozen=True)
class Study:
    """A finished study."""

    model: str
    table: str
    snapshot_id: int
    """The lake's snapshot that the rows were read at."""
    weeks: Sequence[Week]
    courses: Sequence[Course]
    moments: Sequence[Moment]


@dataclass(frozen=True)
class Gain:
    """How much better one course was than another: its mean over the weeks, with the interval of 95 %."""

    mean: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """Whether it paid, in words."""
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "not told apart"


def gain(weeks: Sequence[Week], one: str, other: str) -> Gain | None:
    """AUC of a course less another's, paired by week (Student's t); None of fewer than two weeks.

    Weeks are taken as independent, which weather is not quite: the interval is a little too narrow.
    """
    differences = np.asarray([week.auc[one] - week.auc[other] for week in weeks])
    if len(differences) < 2:
        return None
    half = float(stats.t.isf(ALPHA / 2, len(differences) - 1) * stats.sem(differences))
    mean = float(differences.mean())
    return Gain(mean, mean - half, mean + half)


def study(name: str, chosen: Dataset, first: dt.date, last: dt.date | None) -> Study:
    """What happened from `first` to `last`.

    Args:
        name: registered model.
        chosen: its dataset.
        first: day on which the first champion served.
        last: last day; the last published where it is None.

    Raises:
        DataError: there is no champion as of the first day, or nothing is published from it on.
        ServiceError: MLflow does not answer. A retry can help.
    """
    registry, lake, history = Registry.open(), Lake.open(), Journal.open().state(name)
    days = sorted(
        day for day in lake.count_rows_by_day(chosen.published) if day >= first and (last is None or day <= last)
    )
    if not days:
        raise DataError(f"{chosen.published} has no day from {first} on.", "Publish some, or choose other days.")
    told = courses(registry, name, history, first, days[-1])
    pinned = lake.pin_window(chosen.published, days[0], days[-1])
    scorers = {one: registry.scorer(registry.version(name, one)) for one in {s.version for c in told for s in c.served}}
    weeks = []
    for span in _weeks(days):
        frame = labelled_rows(chosen, lake.read_window(chosen.published, span.first, span.last, pinned))
        if week := measured(span, frame, chosen.label, told, scorers):
            weeks.append(week)
    if not weeks:
        raise DataError(f"no week of {chosen.published} has labels of both kinds.", "Nothing can be measured.")
    return Study(name, chosen.published, pinned, weeks, told, list(_moments(registry, name, history, first, days[-1])))


def courses(registry: Registry, name: str, history: History, first: dt.date, last: dt.date) -> list[Course]:
    """The three ways, all from the champion that served on the first day.

    Raises:
        DataError: there was none.
    """
    versions = {str(one.version): one for one in registry.versions(name)}
    told = Lifecycle.open().state(name).events
    promoted = {one.version for one in told if one.kind is Lived.PROMOTED and one.version in versions}
    crowned = sorted((as_of(versions[one]), int(one)) for one in promoted if as_of(versions[one]) <= first)
    if not crowned:
        raise DataError(f"no version of {name} was promoted as of {first} or before.", "Choose a later --from.")
    begin = str(crowned[-1][1])
    own, costs = versions[begin].tags.get("leeway.dag_run", ""), _costs()

    def course(title: str, rule: str, triggers: Iterable[str]) -> Course:
        runs = [one for one in history.trainings.values() if one.trigger in triggers and first < one.as_of <= last]
        runs.sort(key=lambda one: (one.as_of, one.at))
        able = [Served(one.version, one.as_of) for one in runs if one.outcome == "passed" and one.version in versions]
        served = [one for one in able if title != DRIFT or one.version in promoted]
        names = [own, *(one.run for one in runs)]
        known = [costs[one] for one in names if one in costs]
        return Course(
            title, rule, [Served(begin, first), *served], names, sum(known) if len(known) == len(names) else None
        )

    return [course(*one) for one in WAYS]


def measured(
    days: Days, frame: pd.DataFrame, label: str, told: Sequence[Course], scorers: Mapping[str, Scorer]
) -> Week | None:
    """The week, each day scored by the version that served on it; None where one kind of label is all it has."""
    known = frame[label].to_numpy(dtype=bool)
    if known.all() or not known.any():
        log.warning("%s: all %d labels are the same, so nothing is measured", days, len(known))
        return None
    serving = {one.name: [one.at(day) for day in pd.to_datetime(frame[PARTITION]).dt.date] for one in told}
    scores = {one: np.asarray(scorers[one](frame)) for one in {version for who in serving.values() for version in who}}
    auc = {
        name: float(roc_auc_score(known, [scores[version][row] for row, version in enumerate(who)]))
        for name, who in serving.items()
    }
    log.info("%s: %d rows, scored by %d versions", days, len(known), len(scores))
    return Week(days, len(known), auc)


def _weeks(days: Sequence[dt.date]) -> Iterator[Days]:
    first = days[0]
    while first <= days[-1]:
        yield Days(first, min(first + (WEEK_DAYS - 1) * DAY, days[-1]))
        first += WEEK_DAYS * DAY


def _costs() -> dict[str, float]:
    """USD by run of a DAG."""
    found: dict[str, float] = {}
    for row in Ledger.open().rows():
        run = f"{row['dag_id']}/{row['run_id']}"
        found[run] = found.get(run, 0.0) + row["cost_usd"]
    return found


def _moments(registry: Registry, name: str, history: History, first: dt.date, last: dt.date) -> Iterator[Moment]:
    """What drift started and what was held back, and every change of the champion, by the day that it was of."""
    told, day = [], first
    for one in history.events:
        day = one.as_of or day  # a reset has no moment of its own
        if one.trigger == "drift" or one.kind is Kind.RESET:
            told.append(Moment(day, one.outcome or str(one.kind), _words(one.reason, one.guard, one.why)))
    moments = {str(one.version): as_of(one) for one in registry.versions(name)}
    told += [
        Moment(
            moments[one.version], str(one.kind), f"version {one.from_version or 'none'} to {one.to_version or 'none'}"
        )
        for one in Lifecycle.open().state(name).events
        if one.moves and one.version in moments
    ]
    yield from sorted((one for one in told if first <= one.day <= last), key=lambda one: one.day)


def _words(reason: str, guard: str, why: str) -> str:
    return f"{guard}: {why}" if guard else reason or why
