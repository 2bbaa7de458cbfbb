"""Render the HTML pages of the data docs: for each partition, for each dataset, and the index of all datasets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from pipelines.pages.page import render
from pipelines.pages.reports import KINDS
from pipelines.validation.datadocs.evidence import ValidationRun

SIGNS = {"passed": "✓", "warned": "!", "quarantined": "▲", "blocked": "✕"}
"""Maps each verdict to its sign on the pages."""
MEANINGS = {
    "passed": "published without a warning",
    "warned": "published, with warnings",
    "quarantined": "published without the rows that were quarantined",
    "blocked": "not published",
}
_NOTE_PLACEHOLDER = "<!-- newest -->"
"""Text in a partition's page that is replaced by a note if a newer run exists."""
Summary = Mapping[str, Any]
"""Summary of a run, as `ValidationRun.summarize` returns it."""


def render_partition(run: ValidationRun, earlier_pages: Sequence[str]) -> str:
    """Render the page of one validation run.

    Args:
        run: the validation of one partition.
        earlier_pages: relative addresses of the pages of earlier runs, newest first.
    """
    passed_checks = [check for check in run.checks if check.success]
    links = [{"href": address, "label": _format_label(address)} for address in earlier_pages]
    return _render("datadocs_partition.html", run=run, passed=passed_checks, earlier=links, mark=_NOTE_PLACEHOLDER)


def mark_outdated(page: str, newest_page: str) -> str:
    """Turn a partition's page into the page of an earlier run, with a link to the newest run.

    The page is then in a folder one level deeper, so its base address is the folder above.

    Args:
        page: HTML that `render_partition` returned.
        newest_page: file name of the partition's newest page.

    Returns:
        The changed HTML.
    """
    note = f'<p class="note">An earlier run. <a href="{newest_page}">The newest run of this partition</a>.</p>'
    return page.replace("<head>", '<head>\n<base href="../">', 1).replace(_NOTE_PLACEHOLDER, note, 1)


def render_dataset(name: str, summaries: Sequence[Summary]) -> str:
    """Render the page of one dataset: a table of its partitions and, if they are days, a calendar.

    Args:
        name: name of the dataset.
        summaries: summary of every partition, newest partition first.
    """
    values = {"months": _list_months(summaries), "counts": _count_verdicts(summaries)}
    return _render("datadocs_dataset.html", name=name, summaries=summaries, **values)


def render_index(datasets: Mapping[str, Sequence[Summary]]) -> str:
    """Render the index of all datasets that have a partition.

    Args:
        datasets: maps the name of each dataset to the summaries of its partitions, newest partition first.
    """
    rows = [
        {"name": name, "counts": _count_verdicts(summaries), "newest": summaries[0]}
        for name, summaries in datasets.items()
        if summaries
    ]
    return _render("datadocs_index.html", rows=rows, kinds=KINDS)


def _render(template: str, **values: Any) -> str:
    return render(template, signs=SIGNS, meaning=MEANINGS, **values)


def _count_verdicts(summaries: Sequence[Summary]) -> dict[str, int]:
    verdicts = [summary["verdict"] for summary in summaries]
    return {verdict: verdicts.count(verdict) for verdict in SIGNS}


def _list_months(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """List the months with their days, newest month first. Partitions by hour or by month are left out.

    `blank` is the number of empty cells before the first day: a week begins on Monday.
    """
    summary_by_day = {day: summary for summary in summaries if (day := _parse_day(summary["partition"]))}
    months = []
    for first_day, month_days in groupby(sorted(summary_by_day), key=lambda day: day.replace(day=1)):
        validated_days = set(month_days)
        days = [day for day in (first_day + dt.timedelta(n) for n in range(31)) if day.month == first_day.month]
        cells = [{"day": day.day, "summary": summary_by_day[day] if day in validated_days else None} for day in days]
        months.append({"name": f"{first_day:%B %Y}", "blank": first_day.weekday(), "cells": cells})
    return months[::-1]


def _parse_day(partition: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(partition)
    except ValueError:
        return None


def _format_label(address: str) -> str:
    """Format the address of an earlier run, .../20130101T1015000000-passed.html, as time and verdict."""
    stamp, _, verdict = address.rpartition("/")[2].removesuffix(".html").partition("-")
    try:
        time = f"{dt.datetime.strptime(stamp[:15], '%Y%m%dT%H%M%S'):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        time = stamp
    return f"{time}: {verdict}"
