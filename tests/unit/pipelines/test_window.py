import datetime as dt
import random

import pytest

from pipelines.window import DAY, Days, Window


def test_as_of_first_of_april() -> None:
    window = Window.compute(dt.date(2013, 4, 1), train_days=60, holdout_days=28, label_delay_days=1)
    assert str(window) == "2013-01-01..2013-03-01 | 2013-03-03..2013-03-30"
    assert str(window.clip_to(dt.date(2013, 1, 9)).train) == "2013-01-09..2013-03-01"
    assert len(window.holdout) == 28


def test_no_label_is_known_at_or_after_the_moment_it_is_used() -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        as_of = dt.date(2013, 1, 1) + dt.timedelta(chance.randrange(730))
        train, holdout, delay = chance.randint(1, 90), chance.randint(1, 40), chance.randint(0, 7)
        window = Window.compute(as_of, train, holdout, delay)
        known = {day: day + (delay + 1) * DAY for day in window.all}  # the midnight at which the label is known
        assert max(known.values()) == as_of, "the last day of use is the last that is known, no later and no earlier"
        trained_at = window.holdout.first
        assert all(known[day] <= trained_at for day in window.train)
        assert known[window.train.last] == trained_at
        assert (len(window.train), len(window.holdout)) == (train, holdout)
        assert not set(window.train) & set(window.holdout)
        assert (window.holdout.first - window.train.last).days == delay + 1


def test_without_the_gap_a_label_would_leak() -> None:
    """The negative control of the check above: a window that ends a day later uses a label that is not known yet."""
    window = Window.compute(dt.date(2013, 4, 1), 60, 28, 1)
    late = Window(window.as_of, window.train, Days(window.holdout.first, window.holdout.last + DAY))
    assert max(day + 2 * DAY for day in late.all) > window.as_of


@pytest.mark.parametrize(("first", "last", "days"), [(1, 3, 3), (3, 3, 1), (4, 3, 0), (9, 3, 0)])
def test_days(first: int, last: int, days: int) -> None:
    made = Days(dt.date(2013, 1, first), dt.date(2013, 1, last))
    assert len(made) == len(list(made)) == days


def test_clipping_leaves_the_holdout_and_never_widens() -> None:
    window = Window.compute(dt.date(2013, 4, 1), 60, 28, 1)
    assert window.clip_to(dt.date(2012, 1, 1)) == window
    assert window.clip_to(dt.date(2013, 2, 1)).holdout == window.holdout
    assert len(window.clip_to(dt.date(2013, 3, 20)).train) == 0
