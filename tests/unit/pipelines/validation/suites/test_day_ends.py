"""Test when a day ends early: cut days do, and no usual day does."""

import numpy as np
import pytest

from pipelines.validation.suites.day_ends import find_early_end

HOURS = 24


def make_day(rows_per_hour: float = 40.0, last_hour: int = HOURS) -> np.ndarray:
    counts = np.full(HOURS, rows_per_hour)
    counts[last_hour:] = 0
    return counts.astype(np.int64)


def test_nothing_is_concluded_without_known_days() -> None:
    assert find_early_end(make_day(last_hour=3), [], 0.3) is None


@pytest.mark.parametrize("known_days", [1, 6, 7, 14, 28])
def test_a_day_without_its_last_quarter_ends_early(known_days: int) -> None:
    known = [make_day()] * known_days
    found = find_early_end(make_day(last_hour=18), known, 0.3)
    assert found and (found.rows, found.usual_rows) == (0, 240)
    assert find_early_end(make_day(), known, 0.3) is None
    assert find_early_end(make_day(30), known, 0.3) is None, "a quiet day, to its end"


def test_few_rows_are_no_early_end_because_chance_explains_them() -> None:
    known = [make_day(0.0) + np.eye(HOURS, dtype=np.int64)[23] * 4] * 14
    assert find_early_end(make_day(0.0), known, 0.3) is None
    assert find_early_end(make_day(0.0), [10 * day for day in known], 0.3)


def test_one_short_day_in_two_weeks_does_not_lower_the_bound_and_a_weekly_one_does() -> None:
    short, whole = make_day(last_hour=12), make_day()
    assert find_early_end(short, [short] + [whole] * 13, 0.3)
    assert find_early_end(short, [short] * 2 + [whole] * 12, 0.3) is None
    assert find_early_end(short, [whole] * 6, 0.3), "in the first week, only an end without nearly all rows counts"
    assert find_early_end(make_day() // 4, [whole] * 6, 0.3) is None
    assert find_early_end(make_day() // 4, [whole] * 7, 0.3)


def test_a_clock_that_changed_by_an_hour_is_no_early_end_within_the_tolerance() -> None:
    evening = make_day(0.0)
    evening[22:] = 100
    earlier = np.roll(evening, -1)
    assert find_early_end(earlier, [evening] * 14, 0.3)
    assert find_early_end(earlier, [evening] * 14, 0.3, tolerance_bins=1) is None


def test_random_days_are_seldom_refused() -> None:
    """The largest rate of false refusals, over rates from 0.2 to 50 rows an hour, with two weeks of known days."""
    draws = np.random.default_rng(1)
    for rate in (0.2, 0.5, 1, 2, 5, 50):
        days = draws.poisson(rate, (420, HOURS))
        refused = sum(find_early_end(days[n], list(days[n - 14 : n]), 0.3) is not None for n in range(14, 420))
        assert refused <= 1, rate
