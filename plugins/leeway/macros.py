"""Functions for templates: pass them to a DAG as `user_defined_macros`."""

from __future__ import annotations

import calendar


def get_last_day(month: str) -> str:
    """Return the last day of a month, YYYY-MM-DD; empty if the text is not a month. Steps refuse an empty day.

    Args:
        month: YYYY-MM, or any day of the month, YYYY-MM-DD.
    """
    try:
        year, month_number = map(int, month.split("-")[:2])
        return f"{month[:7]}-{calendar.monthrange(year, month_number)[1]}"
    except ValueError:
        return ""
