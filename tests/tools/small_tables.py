"""Rows for small tables of a lake, in tests that damage its files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa

D1, D2, D3 = (dt.date(2013, 1, day) for day in (1, 2, 3))
SCHEMA = pa.schema([("date", pa.date32()), ("value", pa.int64())])


def create_rows(day: dt.date, value: int = 0) -> pa.Table:
    """Return 50 rows of a day, with the numbers from `value` on."""
    return pa.table({"date": [day] * 50, "value": list(range(value, value + 50))}, schema=SCHEMA)


def get_path(location: str) -> Path:
    """Return the path of a file of the lake."""
    return Path(location.removeprefix("file://"))
