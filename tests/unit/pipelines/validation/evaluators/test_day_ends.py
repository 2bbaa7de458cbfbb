"""Test when a day ends early: cut days do, and no usual day does."""

import numpy as np
import pytest

from pipelines.validation.evaluators.day_ends import find_early_end

HOURS = 24


def make_day(rows_per_hour: float = 40.0, end_hour: int = HOURS) -> np.ndarray:
    """Return the rows of each hour of a day that has none from `end_hour` on."""
    counts = np.full(HOURS, rows_per_hour)
    counts[end_hour:] = 0
    return counts.astype(np.int64)


def test_nothing_is_concluded_without_known_days() -> None:
    assert find_early_end(make_day(end_hour=3), [], 0.3) is None


@pytest.mark.parametrize("known_days", [1, 6, 7, 14, 28])
def test_a_day_without_its_last_quarter_ends_early(known_days: int) -> None:
    known_counts = [make_day()] * known_days
    early_end = find_early_end(make_day(end_hour=18), known_counts, 0.3)
    assert early_end and (early_end.rows, early_end.usual_rows) == (0, 240)
    assert find_early_end(make_day(), known_counts, 0.3) is None
    assert find_early_end(make_day(30), known_counts, 0.3) is None, "a quiet day, to its end"


def test_few_rows_are_no_early_end_because_chance_explains_them() -> None:
    known_counts = [make_day(0.0) + np.eye(HOURS, dtype=np.int64)[23] * 4] * 14
    assert find_early_end(make_day(0.0), known_counts, 0.3) is None
    assert find_early_end(make_day(0.0), [10 * day for day in known_counts], 0.3)


def test_one_short_day_in_two_weeks_does_not_lower_the_bound_and_a_weekly_one_does() -> None:
    short_day, whole_day = make_day(end_hour=12), make_day()
    assert find_early_end(short_day, [short_day] + [whole_day] * 13, 0.3)
    assert find_early_end(short_day, [short_day] * 2 + [whole_day] * 12, 0.3) is None
    assert find_early_end(short_day, [whole_day] * 6, 0.3), (
        "in the first week, only an end without nearly all rows counts"
    )
    assert find_early_end(make_day() // 4, [whole_day] * 6, 0.3) is None
    assert find_early_end(make_day() // 4, [whole_day] * 7, 0.3)


def test_a_clock_that_changed_by_an_hour_is_no_early_end_within_the_tolerance() -> None:
    evening = make_day(0.0)
    evening[22:] = 100
    earlier_evening = np.roll(evening, -1)
    assert find_early_end(earlier_evening, [evening] * 14, 0.3)
    assert find_early_end(earlier_evening, [evening] * 14, 0.3, tolerance_bins=1) is None


def test_random_days_are_seldom_refused() -> None:
    """Of 406 usual days with 0.2 to 50 rows an hour, at most one is refused, by two weeks of known days."""
    random = np.random.default_rng(1)
    for rate in (0.2, 0.5, 1, 2, 5, 50):
        days = random.poisson(rate, (420, HOURS))
        refusals = sum(find_early_end(days[n], list(days[n - 14 : n]), 0.3) is not None for n in range(14, 420))
        assert refusals <= 1, rate
