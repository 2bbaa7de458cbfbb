"""Test which version counts for a day of data."""

import datetime as dt

import pytest

from pipelines.registry.lifecycle import Event, Kind, compute_state
from pipelines.status.performance import choose_version, get_week_start

JANUARY, MARCH, MAY = dt.date(2013, 1, 1), dt.date(2013, 3, 1), dt.date(2013, 5, 1)
AS_OF = {"1": JANUARY, "2": MARCH, "3": MARCH, "4": MARCH}


def make_state(*versions):
    """Return the state of a model whose versions were promoted one after the other."""
    pairs = zip(("", *versions), versions, strict=False)
    return compute_state(Event.create(Kind.PROMOTED, "m", new, champions=(old, new)) for old, new in pairs)


STATE = make_state("1", "2", "3")


@pytest.mark.parametrize(
    ("day", "versions", "chosen"),
    [
        (MAY, ["1", "2", "3"], "3"),  # two have the same as_of: the newest
        (JANUARY, ["1", "2", "3"], "1"),  # the others were trained later
        (MAY, ["1", "2", "3", "4"], "3"),  # version 4 was never champion
        (MAY, ["4"], "4"),  # nothing else scored the day
        (dt.date(2012, 1, 1), ["2", "3"], "3"),  # all were trained later
    ],
)
def test_the_champion_that_was_trained_last_before_the_day_counts(day, versions, chosen):
    assert choose_version(day, versions, STATE, AS_OF) == chosen


def test_a_version_of_unknown_as_of_counts_before_those_that_were_trained_later():
    assert choose_version(JANUARY, ["1", "2"], STATE, {"2": MARCH}) == "1"
    assert choose_version(MAY, ["1", "2"], STATE, {"2": MARCH}) == "2"
    assert choose_version(MAY, ["2", "10"], make_state("2", "10"), {}) == "10", "versions are numbers, not texts"


@pytest.mark.parametrize("day", [dt.date(2013, 1, 7), dt.date(2013, 1, 13)])
def test_weeks_begin_on_mondays(day):
    assert get_week_start(day) == dt.date(2013, 1, 7)
