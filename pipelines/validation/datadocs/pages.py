"""Runs and summaries as HTML. What they hold came with the data: Jinja escapes all of it, and no page runs a script."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from pipelines.validation.datadocs.evidence import Run

SIGNS = {"passed": "✓", "warned": "!", "quarantined": "▲", "blocked": "✕"}
MEANING = {
    "passed": "published without a warning",
    "warned": "published, with warnings",
    "quarantined": "published without the rows that were set aside",
    "blocked": "not published",
}
_MARK = "<!-- newest -->"
Summary = Mapping[str, Any]


def partition(run: Run, earlier: Sequence[str]) -> str:
    """The page of one run.

    Args:
        run: what was judged.
        earlier: addresses of the pages of earlier runs, newest first.
    """
    passed = [one for one in run.checks if one.success]
    links = [{"href": one, "label": _label(one)} for one in earlier]
    return _page("partition.html", run=run, passed=passed, earlier=links, mark=_MARK)


def outdated(page: str, newest: str) -> str:
    """A partition's page for the folder of earlier ones, which is one deeper, with a line on top that says so.

    Args:
        page: HTML that `partition` made.
        newest: file name of the partition's page.
    """
    note = f'<p class="note">An earlier run. <a href="{newest}">The newest run of this partition</a>.</p>'
    return page.replace("<head>", '<head>\n<base href="../">', 1).replace(_MARK, note, 1)


def dataset(name: str, summaries: Sequence[Summary]) -> str:
    """The page of one dataset: a calendar and a table.

    Args:
        name: the dataset.
        summaries: `Run.summary` of every partition, newest partition first.
    """
    return _page("dataset.html", name=name, summaries=summaries, months=_months(summaries), counts=_counts(summaries))


def front(datasets: Mapping[str, Sequence[Summary]]) -> str:
    """The page of all datasets."""
    rows = [{"name": name, "counts": _counts(found), "newest": found[0]} for name, found in datasets.items() if found]
    return _page("front.html", rows=rows)


def _page(template: str, **values: Any) -> str:
    return _jinja().get_template(template).render(signs=SIGNS, meaning=MEANING, **values)


@lru_cache(maxsize=1)
def _jinja() -> Environment:
    made = Environment(
        loader=PackageLoader("pipelines.validation.datadocs"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = lambda value: "?" if value is None else f"{value:,}"
    return made


def _counts(summaries: Sequence[Summary]) -> dict[str, int]:
    verdicts = [one["verdict"] for one in summaries]
    return {verdict: verdicts.count(verdict) for verdict in SIGNS}


def _months(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """Months with their days, newest month first; the first week is led by `blank` days, weeks begin on Monday."""
    by_day = {day: one for one in summaries if (day := _day(one["partition"]))}
    made = []
    for month, days in groupby(sorted(by_day), key=lambda day: day.replace(day=1)):
        judged = set(days)
        each = [month + dt.timedelta(n) for n in range(31)]
        cells = [{"day": d.day, "one": by_day[d] if d in judged else None} for d in each if d.month == month.month]
        made.append({"name": f"{month:%B %Y}", "blank": month.weekday(), "cells": cells})
    return made[::-1]


def _day(partition: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(partition)
    except ValueError:
        return None


def _label(address: str) -> str:
    """20130101T101500+0000-passed as a person reads it."""
    stamp, _, verdict = address.rpartition("/")[2].removesuffix(".html").partition("-")
    try:
        moment = f"{dt.datetime.strptime(stamp[:15], '%Y%m%dT%H%M%S'):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        moment = stamp
    return f"{moment}: {verdict}"
