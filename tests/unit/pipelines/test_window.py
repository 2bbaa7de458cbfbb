"""Test windows: which days they have, and that no label is used before it is known."""

import datetime as dt
import random

import pytest

from pipelines.window import DAY, Days, Window


def test_the_window_of_april_1_has_the_right_days() -> None:
    window = Window.compute(dt.date(2013, 4, 1), train_days=60, holdout_days=28, label_delay_days=1)
    assert str(window) == "2013-01-01..2013-03-01 | 2013-03-03..2013-03-30"
    assert str(window.clip_to(dt.date(2013, 1, 9)).train) == "2013-01-09..2013-03-01"
    assert len(window.holdout) == 28


def test_every_label_is_known_before_it_is_used() -> None:
    generator = random.Random(7)
    for _ in range(2_000):
        as_of = dt.date(2013, 1, 1) + dt.timedelta(generator.randrange(730))
        train, holdout, delay = generator.randint(1, 90), generator.randint(1, 40), generator.randint(0, 7)
        window = Window.compute(as_of, train, holdout, delay)
        known_at = {
            day: day + (delay + 1) * DAY for day in window.all_days
        }  # the midnight from which the label is known
        assert max(known_at.values()) == as_of, "the last day of the window is the last day with a known label"
        trained_at = window.holdout.first
        assert all(known_at[day] <= trained_at for day in window.train)
        assert known_at[window.train.last] == trained_at
        assert (len(window.train), len(window.holdout)) == (train, holdout)
        assert not set(window.train) & set(window.holdout)
        assert (window.holdout.first - window.train.last).days == delay + 1


def test_without_the_gap_a_label_would_leak() -> None:
    """Negative control: a window that is a day longer uses a label that is not known yet."""
    window = Window.compute(dt.date(2013, 4, 1), 60, 28, 1)
    longer = Window(window.as_of, window.train, Days(window.holdout.first, window.holdout.last + DAY))
    assert max(day + 2 * DAY for day in longer.all_days) > window.as_of


@pytest.mark.parametrize(("first", "last", "length"), [(1, 3, 3), (3, 3, 1), (4, 3, 0), (9, 3, 0)])
def test_days_have_their_length(first: int, last: int, length: int) -> None:
    days = Days(dt.date(2013, 1, first), dt.date(2013, 1, last))
    assert len(days) == len(list(days)) == length


def test_clipping_keeps_the_holdout_and_never_extends_the_training() -> None:
    window = Window.compute(dt.date(2013, 4, 1), 60, 28, 1)
    assert window.clip_to(dt.date(2012, 1, 1)) == window
    assert window.clip_to(dt.date(2013, 2, 1)).holdout == window.holdout
    assert len(window.clip_to(dt.date(2013, 3, 20)).train) == 0
