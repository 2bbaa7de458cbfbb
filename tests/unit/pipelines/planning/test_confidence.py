"""Test confidence bands with numbers whose distribution is known."""

from __future__ import annotations

import random

import pytest

from pipelines.errors import SpecError
from pipelines.planning.confidence import Band, Range, estimate_band


def test_band_of_a_uniform_number() -> None:
    """Of numbers from 0 to 100, 5 % are below 5, and 95 % below 95."""
    band = estimate_band(lambda number: number, {"number": Range(0, 100)}, samples=20_000)
    assert (band.lowest, band.highest) == (0, 100)
    assert (band.low, band.median, band.high) == pytest.approx((5, 50, 95), abs=1)


def test_band_of_a_product_is_narrower_than_its_extremes() -> None:
    ranges = {"hours": Range(10, 20), "price": Range(1, 3)}
    band = estimate_band(lambda hours, price: hours * price, ranges)
    assert (band.lowest, band.highest) == (10, 60)
    assert band.lowest < band.low < band.median < band.high < band.highest


def test_band_holds_nine_of_ten_new_draws() -> None:
    ranges = {"hours": Range(10, 20), "price": Range(1, 3)}
    band, generator = estimate_band(lambda hours, price: hours * price, ranges), random.Random(42)
    values = [generator.uniform(10, 20) * generator.uniform(1, 3) for _ in range(5000)]
    assert sum(band.low <= value <= band.high for value in values) / 5000 == pytest.approx(0.9, abs=0.02)


def test_a_known_number_has_no_width() -> None:
    assert estimate_band(lambda number: 2 * number, {"number": Range(3, 3)}) == Band(6, 6, 6, 6, 6)
    assert Range(0.3, 0.5).middle == 0.4


def test_same_seed_gives_the_same_band() -> None:
    bands = [estimate_band(lambda number: number, {"number": Range(0, 1)}, seed=seed) for seed in (1, 1, 2)]
    assert bands[0] == bands[1] != bands[2]


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.3), (float("nan"), 1), (0, float("nan")), (0, float("inf"))])
def test_wrong_ranges_are_refused(low: float, high: float) -> None:
    with pytest.raises(SpecError, match=r"is not a range. Write LOW..HIGH, with LOW at most HIGH."):
        Range(low, high)


def test_too_many_ranges_are_refused() -> None:
    with pytest.raises(SpecError, match="there are 13 ranges; at most 12 are possible"):
        estimate_band(lambda **_: 0.0, {str(number): Range(0, 1) for number in range(13)})
