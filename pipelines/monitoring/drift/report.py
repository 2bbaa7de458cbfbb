"""What was seen of drift up to a day, for people: a page with its pictures inside, and these as PNGs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.monitoring.drift import Decision, Finding, Policy, alarms
from pipelines.monitoring.drift.counts import Array, Column, Counts
from pipelines.monitoring.profiles.record import Record
from pipelines.monitoring.windows import Watched, performance_of
from pipelines.pages.drawing import CANDIDATE, CHAMPION, FAINT, Axes, plt, save_figure
from pipelines.pages.page import write_page
from pipelines.system.files import replace_folder

PAGE = "drift.html"
SHOWN_COLUMNS, SHOWN_BINS, SHOWN_WORST = 30, 24, 4
SHOWN_SIGNS = 32
"""Of a name or a value in a picture, which longer ones would leave no room; the table has them whole."""
FULL = 2.0
"""Effect, in bounds, that has the heat map's last color."""
_SCORE = "score"


@dataclass(frozen=True)
class Seen:
    """What the page shows."""

    record: Record
    watched: Sequence[Watched]
    """Windows up to the day, oldest first."""
    decisions: Sequence[Decision]
    """Of each of them."""
    policy: Policy
    facts: Mapping[str, str]
    """What was asked about, by name."""


def make(folder: Path, seen: Seen) -> Path:
    """`folder` holds the page and its pictures, and nothing else; returns the page."""
    last, told = seen.watched[-1], seen.decisions[-1]
    order = _ordered(seen)
    with replace_folder(folder) as making:
        pictures = {"heat": _heat(seen, order), "bins": _distributions(seen, order), "course": _course(seen)}
        paths = [save_figure(making / f"{name}.png", figure) for name, figure in pictures.items()]
        rows = sorted(map(lambda one: _row(one, told, seen.policy), last.result.findings), key=_furthest)
        write_page(making / PAGE, PAGE, paths, decision=told, rows=rows, facts=seen.facts)
    return folder / PAGE


def _row(one: Finding, told: Decision, policy: Policy) -> dict[str, Any]:
    names = ("column", "measure", "effect", "p_value", "weight", "note")
    more = {"bound": alarms.bound(one, policy), "excess": alarms.excess(one, policy), "alarm": one.column in told.worst}
    return {name: getattr(one, name) for name in names} | more


def _furthest(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return not row["alarm"], -row["excess"], row["column"], row["measure"]


def _ordered(seen: Seen) -> list[str]:
    """Columns: those that alarm, then by how far over their bounds they are now, then by how far they ever were."""
    names = dict.fromkeys(one.column for window in seen.watched for one in window.result.findings)
    now, ever = _excess(seen.watched[-1:], seen.policy), _excess(seen.watched, seen.policy)
    worst = seen.decisions[-1].worst
    rank = {name: place for place, name in enumerate(worst)}
    return sorted(
        names, key=lambda one: (rank.get(one, len(worst)), -max(now.get(one, [0])), -max(ever.get(one, [0])), one)
    )


def _excess(watched: Iterable[Watched], policy: Policy) -> dict[str, list[float]]:
    """Of each column its effects in bounds, window after window: the largest of its measures."""
    found: dict[str, list[float]] = {}
    for at, window in enumerate(watched):
        for one in window.result.findings:
            course = found.setdefault(one.column, [])
            course += [0.0] * (at + 1 - len(course))
            course[at] = max(course[at], alarms.excess(one, policy))
    return found


def _heat(seen: Seen, order: Sequence[str]) -> Any:
    names, found = list(order[:SHOWN_COLUMNS]), _excess(seen.watched, seen.policy)
    cells = np.asarray([(found[name] + [0.0] * len(seen.watched))[: len(seen.watched)] for name in names])
    figure, axis = plt.subplots(figsize=(12, 1.6 + 0.26 * len(names)), layout="constrained")
    drawn = axis.imshow(cells, aspect="auto", cmap="YlOrRd", vmin=0, vmax=FULL, interpolation="nearest")
    for at, (window, decision) in enumerate(zip(seen.watched, seen.decisions, strict=True)):
        _marks(axis, at, names, alarms.find_breaches(window.result, seen.policy), "_")
        _marks(axis, at, names, decision.worst, "s")
    axis.set_yticks(range(len(names)), [_short(name) for name in names], fontsize=8)
    _days(axis, [one.day for one in seen.watched])
    axis.set_title(
        "Color: largest effect of the window up to the day, in bounds. Dash: significantly over it. Square: an alarm",
        loc="left",
        fontsize=10,
    )
    figure.colorbar(drawn, ax=axis, shrink=0.8, label="1: at the bound", extend="max")
    return figure


def _marks(axis: Axes, at: int, names: Sequence[str], marked: Iterable[str], sign: str) -> None:
    rows = [names.index(name) for name in marked if name in names]
    axis.plot([at] * len(rows), rows, sign, color="black", markersize=3)


def _days(axis: Axes, days: Sequence[dt.date]) -> None:
    every = max(1, -(-len(days) // 12))
    axis.set_xticks(
        range(0, len(days), every), [str(one) for one in days[::every]], rotation=30, ha="right", fontsize=8
    )


def _distributions(seen: Seen, order: Sequence[str]) -> Any:
    by_name = {one.name: one for one in seen.watched[-1].columns if one.reference and one.window}
    shown = [by_name[name] for name in order if name in by_name][:SHOWN_WORST]
    figure, axes = plt.subplots(len(shown), 1, figsize=(12, 2.7 * len(shown)), layout="constrained", squeeze=False)
    for axis, column in zip(axes[:, 0], shown, strict=True):
        _bars(axis, column, _labels(seen.record, column))
    axes[0, 0].legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    return figure


def _bars(axis: Axes, column: Column, labels: Sequence[str]) -> None:
    """Shares of the rows in each bin, then and now; bins that are empty on both sides are left out."""
    then, now = _shares(column.reference), _shares(column.window)
    at = np.flatnonzero((then > 0) | (now > 0))
    if len(at) > SHOWN_BINS:
        at = np.sort(at[np.argsort(-(then + now)[at], kind="stable")[:SHOWN_BINS]])
    places = np.arange(len(at))
    axis.bar(places - 0.2, then[at], 0.4, color=CHAMPION, label="reference")
    axis.bar(places + 0.2, now[at], 0.4, color=CANDIDATE, label="this window")
    axis.set_xticks(places, [_short(labels[int(one)]) for one in at], rotation=30, ha="right", fontsize=7)
    axis.set_title(_short(column.name), loc="left", fontsize=10)
    axis.set_ylabel("share")


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_SIGNS else f"{text[: SHOWN_SIGNS - 1]}…"


def _shares(counts: Counts | None) -> Array:
    assert counts is not None
    every = np.append(counts.total, counts.presence[:, 1].sum())
    return np.asarray(every / max(every.sum(), 1.0))


def _labels(record: Record, column: Column) -> list[str]:
    """Of the column's bins, and of its rows without a value."""
    if column.edges is not None:
        inside = [f"{low:.4g} to {high:.4g}" for low, high in zip(column.edges, column.edges[1:], strict=False)]
        return [f"< {column.edges[0]:.4g}", *inside, f"> {column.edges[-1]:.4g}", "none"]
    for one in record.reference.categories:
        if one.name == column.name:
            return [*one.values, "others", "unseen", "none"]
    return ["no", "yes", "none"]


def _course(seen: Seen) -> Any:
    """Scores and labels of each window, and how well the scores tell the labels."""
    days = [one.day for one in seen.watched]
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(12, 6), layout="constrained", sharex=True)
    for name, color in ((_SCORE, CANDIDATE), (seen.record.reference.label, CHAMPION)):
        rates = [_rate(window, name, seen.record) for window in seen.watched]
        upper.plot(range(len(days)), rates, color=color, label="mean score" if name == _SCORE else f"rate of {name}")
    upper.legend(frameon=False, ncols=2)
    upper.set_title("Scores and labels of each window", loc="left", fontsize=10)
    for measure, color, told in (("auc", CHAMPION, "AUC"), ("estimated_auc", CANDIDATE, "AUC that scores promise")):
        _band(lower, seen.watched, measure, color, told)
    if "auc" in (then := performance_of(seen.record.holdout, seen.policy)):
        lower.axhspan(then["auc"].low, then["auc"].high, color=FAINT, alpha=0.18, linewidth=0)
        lower.axhline(then["auc"].value, color=FAINT, linestyle="--", linewidth=1, label="AUC on the holdout")
    lower.legend(frameon=False, ncols=3)
    lower.set_title("Performance, with the intervals that the decision has", loc="left", fontsize=10)
    _days(lower, days)
    return figure


def _rate(window: Watched, name: str, record: Record) -> float:
    found = next((one.window for one in window.columns if one.name == name and one.window), None)
    if found is None or not found.total.sum():
        return float("nan")
    if name != _SCORE:
        return float(found.total[1] / found.total.sum())
    edges = np.asarray(record.reference.score.edges)
    middles = np.concatenate([[0.0], (edges[1:] + edges[:-1]) / 2, [1.0]])
    return float(found.total @ middles / found.total.sum())


def _band(axis: Axes, watched: Sequence[Watched], measure: Any, color: str, told: str) -> None:
    have = [(at, one.performance[measure]) for at, one in enumerate(watched) if measure in one.performance]
    if have:
        at = [place for place, _ in have]
        axis.fill_between(at, [one.low for _, one in have], [one.high for _, one in have], color=color, alpha=0.15)
        axis.plot(at, [one.value for _, one in have], color=color, label=told)
