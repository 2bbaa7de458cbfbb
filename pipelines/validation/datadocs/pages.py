"""The HTML pages of the data docs: one per partition, one per dataset, and the index of all datasets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from pipelines.pages.page import render
from pipelines.validation.datadocs.evidence import Run

SIGNS = {"passed": "✓", "warned": "!", "quarantined": "▲", "blocked": "✕"}
MEANING = {
    "passed": "published without a warning",
    "warned": "published, with warnings",
    "quarantined": "published without the rows that were quarantined",
    "blocked": "not published",
}
_NOTE_PLACE = "<!-- newest -->"
"""Place in a partition's page for the note that a newer run exists."""
Summary = Mapping[str, Any]


def render_partition(run: Run, earlier: Sequence[str]) -> str:
    """Render the page of one validation run.

    Args:
        run: the validation of one partition.
        earlier: addresses of the pages of earlier runs, newest first.
    """
    passed = [check for check in run.checks if check.success]
    links = [{"href": address, "label": _format_label(address)} for address in earlier]
    return _render("datadocs_partition.html", run=run, passed=passed, earlier=links, mark=_NOTE_PLACE)


def mark_outdated(page: str, newest: str) -> str:
    """Change a partition's page for the folder of earlier runs, one level deeper: add a link to the newest run.

    Args:
        page: HTML that `render_partition` returned.
        newest: file name of the partition's newest page.
    """
    note = f'<p class="note">An earlier run. <a href="{newest}">The newest run of this partition</a>.</p>'
    return page.replace("<head>", '<head>\n<base href="../">', 1).replace(_NOTE_PLACE, note, 1)


def render_dataset(name: str, summaries: Sequence[Summary]) -> str:
    """Render the page of one dataset: a calendar and a table of its partitions.

    Args:
        name: name of the dataset.
        summaries: `Run.summary` of every partition, newest partition first.
    """
    values = {"months": _list_months(summaries), "counts": _count_verdicts(summaries)}
    return _render("datadocs_dataset.html", name=name, summaries=summaries, **values)


def render_index(datasets: Mapping[str, Sequence[Summary]]) -> str:
    """Render the page of all datasets that have a partition."""
    rows = [
        {"name": name, "counts": _count_verdicts(summaries), "newest": summaries[0]}
        for name, summaries in datasets.items()
        if summaries
    ]
    return _render("datadocs_index.html", rows=rows)


def _render(template: str, **values: Any) -> str:
    return render(template, signs=SIGNS, meaning=MEANING, **values)


def _count_verdicts(summaries: Sequence[Summary]) -> dict[str, int]:
    verdicts = [summary["verdict"] for summary in summaries]
    return {verdict: verdicts.count(verdict) for verdict in SIGNS}


def _list_months(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """List the months with their days, newest month first. `blank` days come before the 1st; weeks begin on Monday."""
    by_day = {day: summary for summary in summaries if (day := _parse_day(summary["partition"]))}
    months = []
    for month, validated in groupby(sorted(by_day), key=lambda day: day.replace(day=1)):
        has_summary = set(validated)
        days = [day for day in (month + dt.timedelta(n) for n in range(31)) if day.month == month.month]
        cells = [{"day": day.day, "summary": by_day[day] if day in has_summary else None} for day in days]
        months.append({"name": f"{month:%B %Y}", "blank": month.weekday(), "cells": cells})
    return months[::-1]


def _parse_day(partition: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(partition)
    except ValueError:
        return None


def _format_label(address: str) -> str:
    """Format the address of an earlier run, .../20130101T101500+0000-passed.html, for people."""
    stamp, _, verdict = address.rpartition("/")[2].removesuffix(".html").partition("-")
    try:
        time = f"{dt.datetime.strptime(stamp[:15], '%Y%m%dT%H%M%S'):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        time = stamp
    return f"{time}: {verdict}"
