"""What the loop was worth, for people: a page with its picture inside, and that as a PNG."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from pipelines.costs.charges import usd
from pipelines.loop.study import DRIFT, MONTHLY, NEVER, Course, Moment, Study, gain
from pipelines.pages import page
from pipelines.pages.drawing import CANDIDATE, CHAMPION, FAINT, Axes, plt, saved

PAGE = "loop.html"
STYLES = {
    NEVER: {"color": FAINT, "linestyle": "--", "linewidth": 1.6},
    MONTHLY: {"color": CHAMPION, "linestyle": "-.", "linewidth": 1.6},
    DRIFT: {"color": CANDIDATE, "linewidth": 2.2},
}
COLORS = {
    "promoted": "#14632b",
    "rolled_back": "#9b1c26",
    "started": CANDIDATE,
    "not_passed": CHAMPION,
    "failed": "#9b1c26",
    "held_back": FAINT,
    "reset": CANDIDATE,
}
"""Of the time line, from its top to its bottom."""


def make(folder: Path, study: Study) -> Path:
    """`folder` has the page and its picture beside what else is there; returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [saved(folder / "weeks.png", _weeks(study))]
    rows, names = [_row(one, study) for one in study.courses], [one.name for one in study.courses]
    told = {"rows": rows, "verdict": verdict(study), "names": names, "happened": list(_happened(study.moments))}
    return page.render(folder / PAGE, PAGE, pictures, study=study, **told)


def lines(study: Study) -> list[str]:
    """The study for a terminal."""
    rows = (_row(one, study) for one in study.courses)
    told = [f"{one['name']:16} mean AUC {one['auc']:.4f}, {one['trainings']} trainings, {one['cost']}" for one in rows]
    return [*told, *verdict(study)]


def verdict(study: Study) -> list[str]:
    """Whether the loop earned its keep, honestly: against each of the others."""
    told = []
    for other in (NEVER, MONTHLY):
        found = gain(study.weeks, DRIFT, other)
        if found:
            by = f"{found.mean:+.4f} AUC a week on average, {found.low:+.4f} to {found.high:+.4f}"
            told.append(f"{DRIFT} against {other}: {found.words} ({by})")
    return told or [f"{DRIFT}: one week says nothing"]


def _row(course: Course, study: Study) -> dict[str, Any]:
    auc = [week.auc[course.name] for week in study.weeks]
    worst = min(range(len(auc)), key=auc.__getitem__)
    return {
        "name": course.name,
        "rule": course.rule,
        "trainings": len(course.runs),
        "served": ", ".join(f"version {one.version} from {one.since}" for one in course.served),
        "cost": "cost unknown" if course.cost_usd is None else usd(course.cost_usd),
        "auc": fmean(auc),
        "worst": auc[worst],
        "worst_week": study.weeks[worst].days.first,
    }


def _happened(moments: Sequence[Moment]) -> Iterator[dict[str, Any]]:
    """A row each; what the same guard held back again and again is one, with the words of the last time."""
    for (what, _), alike in groupby(moments, lambda one: (one.what, _guard(one))):
        rows = list(alike)
        for some in [rows] if what == "held_back" else [[one] for one in rows]:
            days = f"{some[0].day} to {some[-1].day}, {len(some)} times" if some[1:] else some[0].day
            yield {"days": days, "what": what.replace("_", " "), "words": some[-1].words}


def _guard(moment: Moment) -> str:
    return moment.words.partition(":")[0] if moment.what == "held_back" else ""


def _weeks(study: Study) -> Any:
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(13, 6.4), layout="constrained", sharex=True, height_ratios=(4, 1.2)
    )
    for course in study.courses:
        middles = [week.days.first + dt.timedelta(len(week.days) // 2) for week in study.weeks]
        auc = [week.auc[course.name] for week in study.weeks]
        upper.plot(middles, auc, label=f"{course.name}: {fmean(auc):.4f}", **STYLES[course.name])
    for one in study.courses[-1].served[1:]:
        upper.axvline(one.since, color=CANDIDATE, linewidth=0.8, alpha=0.5)
    upper.set_title(f"{study.model}: AUC of each week, by the model that served", loc="left", fontsize=11)
    upper.legend(frameon=False, ncols=3, loc="lower left")
    upper.grid(axis="y", color="#eeeeee")
    _line(lower, study.moments)
    return figure


def _line(axis: Axes, moments: Sequence[Moment]) -> None:
    """Everything that happened, a row a kind."""
    for row, (what, color) in enumerate(reversed(COLORS.items())):
        days: list[Any] = [one.day for one in moments if one.what == what]
        axis.plot(days, [row] * len(days), "|", color=color, markersize=14, markeredgewidth=1.6)
    axis.set_yticks(range(len(COLORS)), [one.replace("_", " ") for one in reversed(COLORS)], fontsize=8)
    axis.set_ylim(-0.6, len(COLORS) - 0.4)
