"""The placeholder for the day in addresses and parameters: {date} or {date:%Y/%m/%d}."""

from __future__ import annotations

import datetime as dt
import re

DATE_PLACEHOLDER = re.compile(r"\{date(?::([^{}]*))?\}")


def fill_date(pattern: str, day: dt.date) -> str:
    """Replace every placeholder in the pattern with the day."""
    return DATE_PLACEHOLDER.sub(lambda match: day.strftime(match[1] or "%Y-%m-%d"), pattern)
