"""Test what requests cost in a month, and from when a real-time endpoint is not dearer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pipelines.errors import SpecError
from pipelines.planning.endpoints.pricing import (
    Prices,
    Traffic,
    compare_modes,
    compute_async_usd,
    compute_batch_usd,
    compute_capacity,
    compute_real_time_usd,
    compute_serverless_usd,
    find_async_break_even,
    find_batch_break_even,
    find_serverless_break_even,
)

PRICES = Prices(0.23, usd_per_gb_s=2e-5, memory_gb=2)
"""ml.m5.xlarge, and serverless with 2 GB, in us-east-1 (pipelines/costs/price_sources/prices.json)."""
TRAFFIC = Traffic(1e6, 0.1, bursts=200, runs=30)


def test_costs_of_a_month() -> None:
    """A million requests of 0.1 s are 27.8 hours."""
    assert compute_real_time_usd(2, PRICES) == pytest.approx(2 * 730 * 0.23)
    assert compute_serverless_usd(TRAFFIC, PRICES) == pytest.approx(1e6 * 0.1 * 2 * 2e-5)
    assert compute_async_usd(1, TRAFFIC, PRICES) == pytest.approx(0.23 * (27.78 + 200 * 0.25), abs=0.01)
    assert compute_async_usd(3, TRAFFIC, PRICES) == pytest.approx(0.23 * (27.78 + 200 * 3 * 0.25), abs=0.01)
    assert compute_batch_usd(TRAFFIC, PRICES) == pytest.approx(0.23 * (27.78 + 30 / 12), abs=0.01)
    assert list(compare_modes(1, TRAFFIC, PRICES)) == ["serverless", "batch", "async", "real-time"]
    assert "serverless" not in compare_modes(1, TRAFFIC, replace(PRICES, usd_per_gb_s=0))


def test_serverless_break_even() -> None:
    """At the break-even both cost the same: 42M requests a month of 0.1 s, which two workers can answer."""
    requests = find_serverless_break_even(1, 0.1, replace(PRICES, workers=2))
    assert requests == pytest.approx(41.975e6)
    assert compute_serverless_usd(Traffic(requests, 0.1), PRICES) == pytest.approx(compute_real_time_usd(1, PRICES))
    assert find_serverless_break_even(1, 0.1, replace(PRICES, usd_per_gb_s=0)) is None


@pytest.mark.parametrize("instances", [1, 3])
def test_no_serverless_break_even_beyond_what_the_endpoint_can_answer(instances: int) -> None:
    """A worker answers at most 26.28M requests of 0.1 s a month, and would have to answer 42M."""
    assert compute_capacity(1, 0.1, 1) == pytest.approx(26.28e6)
    assert find_serverless_break_even(instances, 0.1, PRICES) is None
    # An hour of serverless work with 2 GB costs 0.144 USD: only an instance that costs less can be cheaper.
    cheap = replace(PRICES, usd_per_h=0.1439)
    requests = find_serverless_break_even(instances, 0.1, cheap)
    assert requests and requests <= compute_capacity(instances, 0.1, 1)
    assert find_serverless_break_even(instances, 0.1, replace(PRICES, usd_per_h=0.1441)) is None


@pytest.mark.parametrize(("instances", "expected"), [(1, 2_808.9), (2, 2_864.4), (3, 2_883.0)])
def test_async_break_even(instances: int, expected: float) -> None:
    """A month has 2,920 times a start and a pause of together 900 s; the 27.78 busy hours leave time for fewer."""
    bursts = find_async_break_even(instances, TRAFFIC, PRICES)
    assert bursts == pytest.approx(expected, abs=0.05)
    real_time_usd = compute_real_time_usd(instances, PRICES)
    for share, is_cheaper in ((0.99, True), (1.01, False)):
        async_usd = compute_async_usd(instances, replace(TRAFFIC, bursts=bursts * share), PRICES)
        assert (async_usd < real_time_usd * (1 - 1e-9)) is is_cheaper
    assert compute_async_usd(instances, replace(TRAFFIC, bursts=bursts), PRICES) == pytest.approx(real_time_usd)
    # More bursts cost no more: the instances never end.
    assert compute_async_usd(instances, replace(TRAFFIC, bursts=1e6), PRICES) == pytest.approx(real_time_usd)
    assert find_async_break_even(instances, TRAFFIC, replace(PRICES, start_s=0, idle_s=0)) is None


def test_no_bursts_are_left_if_all_instances_are_always_busy() -> None:
    """50 million requests of 0.1 s are 1,389 hours, and two instances have 1,460."""
    traffic = replace(TRAFFIC, requests=50e6)
    assert find_async_break_even(2, traffic, PRICES) == pytest.approx((1_460 - 1_388.9) * 2, abs=0.1)
    assert find_async_break_even(1, traffic, PRICES) == 0


def test_batch_break_even() -> None:
    runs = find_batch_break_even(2, TRAFFIC, PRICES)
    assert runs is not None
    usd = compute_batch_usd(replace(TRAFFIC, runs=runs), PRICES)
    assert usd == pytest.approx(compute_real_time_usd(2, PRICES))
    assert find_batch_break_even(2, TRAFFIC, replace(PRICES, start_s=0)) is None


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Traffic(0, 1), "requests must be a positive number, not 0."),
        (lambda: Traffic(1e15, 1), "requests must be at most 1e+14, not 1e+15."),
        (lambda: Traffic(1, 1, bursts=-1), "bursts must be a positive number, not -1."),
        (lambda: Prices(0), "usd_per_h must be a positive number, not 0."),
        (lambda: Prices(1, usd_per_gb_s=-1), "usd_per_gb_s must be a number of at least 0, not -1."),
        (lambda: Prices(1, memory_gb=1e-300), "memory_gb must be at least 0.1, not 1e-300."),
        (lambda: Prices(1, start_s=float("nan")), "start_s must be a number of at least 0, not nan."),
        (lambda: compute_real_time_usd(0, PRICES), "instances must be a positive number, not 0."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        call()
    assert text in str(caught.value)
