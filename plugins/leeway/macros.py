"""Functions for templates: pass them to a DAG as `user_defined_macros`."""

from __future__ import annotations

import calendar


def month_end(month: str) -> str:
    """Return the last day, YYYY-MM-DD, of a month, YYYY-MM or YYYY-MM-DD; "" if it is no month: steps refuse that."""
    try:
        year, number = map(int, month.split("-")[:2])
        return f"{month[:7]}-{calendar.monthrange(year, number)[1]}"
    except ValueError:
        return ""
