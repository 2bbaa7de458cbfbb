"""Compare the days of a model version with its reference, window by window."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pipelines.errors import DataError
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.monitoring.drift import Finding, Measure, Policy, WindowResult, columns, performance, seasonal
from pipelines.monitoring.drift.counts import Array, Column, Counts, Kind
from pipelines.monitoring.profiles.profile import Profile
from pipelines.monitoring.profiles.record import Record
from pipelines.monitoring.profiles.reference import SCORE_EDGES

Days = Mapping[dt.date, Profile]
KINDS: Mapping[str, Kind] = {"number": "numeric", "score": "numeric", "category": "category", "label": "label"}
WHOLE = 1.0
"""Weight of scores, labels and performance: the alarm of one is enough."""


@dataclass(frozen=True)
class Watched:
    """A window, and what was seen in it."""

    day: dt.date
    """Its last one."""
    columns: tuple[Column, ...]
    """Counts then and now."""
    performance: Mapping[Measure, Estimate]
    """Over the window's days with labels, and what its scores promise; empty where neither can be told."""
    result: WindowResult
    """The findings."""


def windows(
    record: Record,
    days: Days,
    length: int,
    weights: Mapping[str, float],
    policy: Policy,
    label_delay_days: int,
    refused: Collection[dt.date] = (),
) -> Iterator[Watched]:
    """The windows that are whole, in the order of their last days: of fewer days nothing tells how days differ.

    Args:
        record: the reference, with its own days.
        days: profiles over it, of the days up to the last that is decided on.
        length: of a window, days.
        weights: feature to its importance, a share of all; of one that is not told it is 0. Where all are, as of a
            model that tells none, each feature has the same: they would weigh nothing, and never alarm.
        policy: for the level of intervals.
        label_delay_days: so many days before the end of a day's window labels are not known yet.
        refused: days that nobody scores: their validation kept them from being published. A window is whole without.

    Raises:
        DataError: a profile is of another reference.
    """
    for day, one in days.items():
        if one.reference != record.reference.digest:
            raise DataError(f"the profile of {day} is of another reference.", "Run `profile` of that day again.")
    holdout = performance_of(record.holdout, policy)
    names = [*(one.name for one in record.reference.numbers), *(one.name for one in record.reference.categories)]
    shares = weights if any(weights.values()) else {name: 1 / len(names) for name in names}
    for day in sorted({*days, *refused}):
        wanted = [day - dt.timedelta(n) for n in reversed(range(length))]
        within = {one: days[one] for one in wanted if one in days}
        if not within or not all(one in days or one in refused for one in wanted):
            continue
        known = {one: told for one, told in within.items() if day - one >= dt.timedelta(label_delay_days)}
        yield _watched(record, day, within, known, holdout, shares, policy)


def performance_of(days: Days, policy: Policy) -> dict[Measure, Estimate]:
    """What the labels of the days say of the scores; empty where there are none."""
    labelled = [one for one in days.values() if sum(one.joint.counts)]
    return performance.measured(_joint(labelled), _scores(labelled), policy.alpha) if labelled else {}


def _watched(
    record: Record,
    day: dt.date,
    within: Days,
    known: Days,
    then: Mapping[Measure, Estimate],
    weights: Mapping[str, float],
    policy: Policy,
) -> Watched:
    compared = (*_features(record, within, weights), *_answers(record, within, known))
    measured, promised = _told(record, within, known, policy) if then else ({}, {})
    labelled = sum(bool(sum(one.joint.counts)) for one in known.values())
    lost = (
        *_enough(performance.losses(measured, then, days=labelled), known, policy),
        *performance.losses(promised, then, days=len(within)),
    )
    rows = sum(one.rows for one in within.values())
    found = columns.window(day.isoformat(), rows, compared, lost)
    return Watched(day, compared, {**measured, **promised}, found)


def _told(
    record: Record, now: Days, known: Days, policy: Policy
) -> tuple[dict[Measure, Estimate], dict[Measure, Estimate]]:
    """Performance where labels are known, by the holdout's score of each bin; and what scores alone promise."""
    holdout = list(record.holdout.values())
    score = _scores(holdout)
    labelled = [one for one in known.values() if sum(one.joint.counts)]
    measured = performance.measured(_joint(labelled), score, policy.alpha) if labelled else {}
    chance = performance.calibrated(_joint(holdout).sum(axis=0), score)
    histogram = np.asarray([one["score"].counts for one in now.values()])
    return measured, performance.estimated(histogram, chance, policy.alpha)


def _enough(lost: Sequence[Finding], known: Days, policy: Policy) -> Sequence[Finding]:
    """Of a few labels, the first that came, chance makes any loss; and where they agree it looks like a sure one."""
    rows = sum(sum(one.joint.counts) for one in known.values())
    if rows >= policy.min_rows:
        return lost
    why = f"{rows} labelled rows, fewer than the {policy.min_rows} that decide"
    return [replace(one, effect=None, p_value=None, note=why) for one in lost]


def _features(record: Record, now: Days, weights: Mapping[str, float]) -> Iterator[Column]:
    edges, training = {one.name: one.edges for one in record.reference.numbers}, _season(record.training, now)
    for name in (*edges, *(one.name for one in record.reference.categories)):
        yield _column(name, training, now, edges.get(name), weights.get(name, 0.0))


def _answers(record: Record, now: Days, known: Days) -> Iterator[Column]:
    """Scores against the holdout's, which training's would flatter; labels against all that are known."""
    yield _column("score", record.holdout, now, SCORE_EDGES, WHOLE)
    if any(sum(one[record.reference.label].counts) for one in known.values()):
        yield _column(record.reference.label, _season({**record.training, **record.holdout}, known), known, None, WHOLE)


def _season(then: Days, now: Days) -> Days:
    """The reference's days of the same weeks a year before, where it has enough of them; else all."""
    chosen = seasonal.same_weeks(list(then), list(now))
    return {day: one for (day, one), taken in zip(then.items(), chosen, strict=True) if taken}


def _column(name: str, then: Days, now: Days, edges: Sequence[float] | None, weight: float) -> Column:
    kind = KINDS[next(iter(then.values()))[name].kind]
    return Column(name, kind, _counts(name, then), _counts(name, now), np.asarray(edges) if edges else None, weight)


def _counts(name: str, days: Days) -> Counts | None:
    """None where the column was in none of the days; of a day that lacks it, its rows are missing."""
    told = [one[name] for one in days.values()]
    if all(one.absent for one in told):
        return None
    bins, missing = [one.counts for one in told], [one.missing + one.absent for one in told]
    return Counts(np.asarray(bins), np.asarray(missing), np.asarray([day.weekday() for day in days]))


def _joint(days: Sequence[Profile]) -> Array:
    """Score x label, shape (days, bins, 2)."""
    counts = np.asarray([one.joint.counts for one in days], dtype=np.float64)
    return counts.reshape(len(days), 2, -1).swapaxes(1, 2)


def _scores(days: Sequence[Profile]) -> Array:
    """The mean score of each bin; of one without rows its middle."""
    inside = [(low + high) / 2 for low, high in pairwise(SCORE_EDGES)]
    sums = np.asarray([one.joint.sums for one in days]).sum(axis=0).reshape(2, -1).sum(axis=0)
    rows = _joint(days).sum(axis=(0, 2))
    return np.asarray(np.divide(sums, rows, out=np.asarray([0.0, *inside, 1.0]), where=rows > 0))
