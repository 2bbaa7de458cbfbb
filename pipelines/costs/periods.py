"""Define the span of time that a report covers: a month, or the last days."""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.errors import SpecError

LAST_DAYS = 30
"""Number of days of a report without a month."""
WEEK_DAYS = 7

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Period:
    """A span of time, in UTC."""

    begin: dt.datetime
    """Beginning of the span."""
    end: dt.datetime
    """End of the span, excluded; at most the present moment."""
    title: str
    """The span in words, such as `2026-11` or `the last 30 days`."""

    @property
    def weeks(self) -> float:
        """Number of weeks; 1 for less than a week, because a few days do not show what happens in a week."""
        return max((self.end - self.begin) / dt.timedelta(WEEK_DAYS), 1.0)

    def select(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows of jobs that were created in this period, and the rows of endpoints that begin in it."""
        return [row for row in rows if self.begin <= (row.get("created") or row["begin"]) < self.end]


def parse_month(text: str, now: dt.datetime) -> str:
    """Check that a month is valid and has begun, and return it unchanged; an empty text is returned, too.

    Args:
        text: month, YYYY-MM.
        now: the current moment, with time zone.

    Raises:
        SpecError: the text is not a month, or the month is in the future. A retry cannot help.
    """
    if text and not re.fullmatch(r"[1-9]\d{3}-(0[1-9]|1[0-2])", text):
        raise SpecError(f"--month {text[:60]!r} is not a month.", "Write it as YYYY-MM.")
    if text > f"{now.astimezone(dt.UTC):%Y-%m}":
        raise SpecError(f"--month {text} is in the future.", "Nothing was charged in it yet: give an earlier month.")
    return text


def build_period(month: str, now: dt.datetime) -> Period:
    """Return the period of a month, up to now at most; without a month, the last `LAST_DAYS` days.

    Raises:
        SpecError: the text is not a month, or the month is in the future. A retry cannot help.
    """
    if not parse_month(month, now):
        return build_last_days(LAST_DAYS, now)
    begin = dt.datetime.strptime(f"{month}-01 +0000", "%Y-%m-%d %z")
    return Period(begin, min(begin + dt.timedelta(monthrange(begin.year, begin.month)[1]), now), month)


def build_last_days(days: int, now: dt.datetime) -> Period:
    """Return the period of the last `days` days, up to now."""
    return Period(now - dt.timedelta(days), now, f"the last {days} days")
