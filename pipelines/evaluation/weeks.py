"""Split a holdout into weeks."""

from __future__ import annotations

from typing import Any

import pandas as pd


def find_weeks(days: pd.Series[Any]) -> pd.Series[Any]:
    """Return the first day of each row's week, as YYYY-MM-DD. The first week begins with the earliest of `days`.

    Args:
        days: day of each row, as a date or as YYYY-MM-DD.
    """
    dates = pd.to_datetime(days)
    first_day = dates.min()
    return (first_day + pd.to_timedelta((dates - first_day).dt.days // 7 * 7, unit="D")).dt.strftime("%Y-%m-%d")
