"""Test the windows of datasets with partitions by month: whole months, of which every label is known."""

import datetime as dt

import pytest

from pipelines.partitions import Month, get_end, shift_partition
from pipelines.window import DAY, Days, Window, count_months


def test_numbers_of_days_are_rounded_to_months() -> None:
    assert [count_months(days) for days in (1, 28, 31, 45, 46, 60, 90, 365, 730)] == [1, 1, 1, 1, 2, 2, 3, 12, 24]


def test_a_window_has_whole_months() -> None:
    window = Window.compute(dt.date(2013, 6, 1), 60, 28, 0, "month")
    assert window.holdout == Days(dt.date(2013, 5, 1), dt.date(2013, 5, 31))
    assert window.train == Days(dt.date(2013, 3, 1), dt.date(2013, 4, 30))
    # The label of 31 May becomes known during 1 June, so that May is not known as of that midnight.
    delayed = Window.compute(dt.date(2013, 6, 1), 60, 28, 1, "month")
    assert delayed.holdout == Days(dt.date(2013, 4, 1), dt.date(2013, 4, 30))
    assert delayed.train == Days(dt.date(2013, 1, 1), dt.date(2013, 2, 28))


@pytest.mark.parametrize("delay", [0, 1, 7, 40])
def test_a_month_is_used_when_it_has_ended_and_its_labels_are_known(delay: int) -> None:
    """As-of leakage: in two years, no window has a month that is not known yet, and none lacks a known one."""
    for number in range(730):
        as_of = dt.date(2013, 1, 1) + number * DAY
        window = Window.compute(as_of, 90, 30, delay, "month")
        for moment, days in ((as_of, window.holdout), (window.holdout.first, window.train)):
            last_month = Month(days.last.replace(day=1))
            assert days.first.day == 1
            assert days.last + DAY == get_end(last_month).date()
            assert get_end(last_month).date() + delay * DAY <= moment
            assert get_end(shift_partition(last_month, 1)).date() + delay * DAY > moment, (
                "the next month is not known yet"
            )
