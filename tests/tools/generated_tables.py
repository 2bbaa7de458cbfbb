"""Generate tables with hypothesis: values that engines treat differently, such as NaN, extremes and unusual texts."""

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

from pipelines.validation.evaluators.rows import VIEW
from pipelines.validation.suites import Rows

DAY = dt.date(2013, 1, 1)
MOMENT = dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)
NAN, INF = float("nan"), float("inf")

SMALL = st.integers(-3, 3)
INTS = SMALL | st.sampled_from([-(2**31), 2**31 - 1]) | st.integers(-(2**31), 2**31 - 1)
LONGS = (
    SMALL
    | st.sampled_from([2**53, 2**53, 2**53 + 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)])
    | st.integers(-(2**63), 2**63 - 1)
)
FLOATS = (
    st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 2.5, 1.0, 2.0, 1e300, -1e300, 1.7e308, 5e-324, 2.0**53, NAN, INF, -INF])
    | SMALL.map(float)
    | st.floats(width=64)
)
WORDS = st.sampled_from(
    [
        "",
        "a",
        "ab",
        "A",
        " ",
        "é",
        "e\u0301",
        "a\nb",
        "zz\n",
        "日本",
        "😀",
        "ß",
        "nan",
        "None",
        "0",
        "a.b",
        "٣",
        "a\x00b",
    ]
)
TEXTS = WORDS | st.text(st.characters(codec="utf-8"), max_size=3)
DAYS = st.sampled_from([DAY, dt.date(2012, 12, 31), dt.date.min, dt.date.max]) | st.dates()
MOMENTS = st.sampled_from([MOMENT, MOMENT + dt.timedelta(microseconds=1)]) | st.datetimes(
    dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)
).map(lambda time: time.replace(tzinfo=dt.UTC))

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int32(), INTS),
    "i2": (pa.int32(), SMALL),
    "j": (pa.int64(), LONGS),
    "f": (pa.float64(), FLOATS),
    "g": (pa.float64(), FLOATS),
    "s": (pa.string(), TEXTS),
    "t": (pa.string(), WORDS),
    "b": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), DAYS),
    "day2": (pa.date32(), DAYS),
    "at": (pa.timestamp("us", tz="UTC"), MOMENTS),
    "at2": (pa.timestamp("us", tz="UTC"), MOMENTS),
}


@st.composite
def draw_table(draw: st.DrawFn) -> pa.Table:
    """Draw a table: with no rows, equal rows, missing values, NaN, infinite and extreme values."""
    count = draw(st.integers(0, 12))
    columns = {}
    for name, (column_type, values) in COLUMNS.items():
        cell = draw(st.sampled_from([values, st.none() | values, draw(values.map(st.just)), st.none()]))
        columns[name] = pa.array(draw(st.lists(cell, min_size=count, max_size=count)), column_type)
    return pa.table(columns)


def open_table(table: pa.Table) -> Rows:
    """Return the rows of a table that is in no lake."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register(VIEW, table)
    return Rows(connection, table.schema, None, DAY, "none", Path(tempfile.gettempdir()))
