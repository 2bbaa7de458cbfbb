"""Test the months and spans of reports."""

import datetime as dt

import pytest

from pipelines.costs.periods import build_period
from pipelines.errors import SpecError
from tests.unit.pipelines.costs.ledger_rows import make_endpoint_row, make_row

NOW = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def test_month_ends_with_the_month_or_now():
    assert build_period("2026-10", NOW).end == dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    assert (build_period("2026-11", NOW).end, build_period("2026-11", NOW).title) == (NOW, "2026-11")
    assert build_period("", NOW).begin == NOW - dt.timedelta(days=30)


@pytest.mark.parametrize(
    ("month", "text"),
    [("2026-13", "not a month"), ("26-01", "not a month"), ("2026-1", "not a month"), ("0000-01", "not a month"),
     ("2026-12", "in the future"), ("9999-12", "in the future")],
)  # fmt: skip
def test_wrong_month_gives_one_line(month, text):
    with pytest.raises(SpecError, match=text):
        build_period(month, NOW)


def test_rows_are_selected_by_their_begin():
    begin, end = dt.datetime(2026, 10, 1, tzinfo=dt.UTC), dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    rows = [make_row("a", begin), make_row("b", end), make_endpoint_row(begin), make_endpoint_row(end)]
    assert build_period("2026-10", NOW).select(rows) == [rows[0], rows[2]]
