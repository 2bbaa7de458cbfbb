"""Test the sizes of endpoints with published values of Erlang C, and with a seeded simulation of a queue."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable

import pytest

from pipelines.errors import SpecError
from pipelines.planning.endpoints.sizing import (
    Load,
    compute_concurrency,
    compute_waiting_share,
    estimate_latency_s,
    estimate_wait_s,
    size_endpoint,
)


def simulate_waits(
    load: Load,
    workers: int,
    count: int,
    draw: Callable[[random.Random], float],
    seed: int = 7,
    *,
    with_service: bool = False,
) -> list[float]:
    """Return the waits of requests that come at random, and that the first free worker answers, in their order."""
    generator, clock, waits = random.Random(seed), 0.0, []
    free = [0.0] * workers
    for _ in range(count):
        clock += generator.expovariate(load.requests_per_s)
        begin = max(clock, heapq.heappop(free))
        end = begin + load.service_s * draw(generator)
        waits.append((end if with_service else begin) - clock)
        heapq.heappush(free, end)
    return sorted(waits)


def test_one_worker() -> None:
    """In M/M/1, a request waits with the probability that the worker is busy."""
    assert compute_waiting_share(1, 0.7) == pytest.approx(0.7)


def test_two_workers() -> None:
    """In M/M/2, it is 2 u^2 / (1 + u), with u the use (Kleinrock 1975, section 3.5)."""
    assert compute_waiting_share(2, 1.6) == pytest.approx(2 * 0.8**2 / 1.8)


def test_erlang_s_table() -> None:
    """Ten erlangs and 14 workers: 17.4 % wait."""
    assert compute_waiting_share(14, 10) == pytest.approx(0.174, abs=0.001)
    assert compute_waiting_share(5000, 4900) < 1  # it does not overflow
    assert compute_waiting_share(10, 10) == 1


def test_little_s_law_in_a_simulation() -> None:
    """The mean number of requests in a simulated queue is rate x time."""
    load = Load(20, 0.1)
    waits = simulate_waits(load, 3, 50_000, lambda generator: generator.expovariate(1))
    mean_s = sum(waits) / len(waits) + load.service_s
    size = size_endpoint(load, 0.5)
    assert (size.instances, size.use) == (3, pytest.approx(2 / 3))
    assert size.mean_latency_s == pytest.approx(mean_s, rel=0.03)
    assert size.concurrency == pytest.approx(compute_concurrency(20, mean_s), rel=0.03)


@pytest.mark.parametrize(("rate", "workers"), [(12, 2), (20, 3), (75, 10)])
def test_wait_is_that_of_a_simulation(rate: float, workers: int) -> None:
    """Five simulations of 40,000 requests: two percentiles are within 12 % of the formula, which is noise."""
    load = Load(rate, 0.1)
    waits = sorted(
        wait
        for seed in range(5)
        for wait in simulate_waits(load, workers, 40_000, lambda generator: generator.expovariate(1), seed)
    )
    for percentile in (0.9, 0.99):
        expected_s = estimate_wait_s(load, workers, percentile)
        assert waits[int(percentile * len(waits))] == pytest.approx(expected_s, rel=0.12)


def test_wait_is_an_upper_estimate_for_times_that_vary_less() -> None:
    """With constant times, the simulated wait is about half of it; with times that vary more, it is longer."""
    load = Load(25, 0.1)
    expected_s = estimate_wait_s(load, 3, 0.99)
    constant = simulate_waits(load, 3, 60_000, lambda generator: 1.0)
    varying = simulate_waits(load, 3, 60_000, lambda generator: 10.0 if generator.random() < 0.1 else 0.0)
    assert constant[int(0.99 * 60_000)] < 0.7 * expected_s
    assert varying[int(0.99 * 60_000)] > 1.5 * expected_s


@pytest.mark.parametrize(("rate", "workers"), [(5, 4), (20, 3), (75, 10)])
def test_latency_is_that_of_a_simulation(rate: float, workers: int) -> None:
    """Varying times: within 12 % of the formula, which is noise. Equal times: the formula is an upper estimate."""
    load = Load(rate, 0.1, is_varying=True)
    latencies = sorted(
        latency
        for seed in range(3)
        for latency in simulate_waits(
            load, workers, 30_000, lambda generator: generator.expovariate(1), seed, with_service=True
        )
    )
    for percentile in (0.9, 0.99):
        expected_s = estimate_latency_s(load, workers, percentile)
        assert latencies[int(percentile * len(latencies))] == pytest.approx(expected_s, rel=0.12)
    equal_s = simulate_waits(load, workers, 30_000, lambda generator: 1.0, with_service=True)[int(0.99 * 30_000)]
    expected_s = estimate_latency_s(Load(rate, 0.1), workers, 0.99)
    assert 0.1 <= equal_s <= expected_s * 1.001


def test_latencies_of_one_worker_and_of_equal_means() -> None:
    """In M/M/1, the response time is exponential with the mean s / (1 - u): 0.2 s ln(100). Here, both means differ."""
    assert estimate_latency_s(Load(5, 0.1, is_varying=True), 1, 0.99) == pytest.approx(0.2 * math.log(100))
    nearly = [estimate_latency_s(Load(rate, 0.1, is_varying=True), 3, 0.99) for rate in (19.9999, 20, 20.0001)]
    assert nearly[0] == pytest.approx(nearly[1], rel=1e-4) and nearly[1] == pytest.approx(nearly[2], rel=1e-4)
    assert nearly[1] == pytest.approx(0.589, abs=0.001)


def test_times_that_vary_need_more_instances() -> None:
    assert size_endpoint(Load(20, 0.1), 0.5).instances == 3
    size = size_endpoint(Load(20, 0.1, is_varying=True), 0.5)
    assert size.instances == 4 and size.latency_s <= 0.5 < estimate_latency_s(Load(20, 0.1, is_varying=True), 3, 0.99)


def test_size_is_the_smallest_one() -> None:
    load = Load(200, 0.05, workers=4)
    size = size_endpoint(load, 0.2, 0.99, most_use=1)
    assert estimate_wait_s(load, size.instances, 0.99) + 0.05 == pytest.approx(size.latency_s) and size.latency_s <= 0.2
    fewer_are_enough = size.instances - 1 > load.busy_workers / 4
    assert not fewer_are_enough or estimate_wait_s(load, size.instances - 1, 0.99) + 0.05 > 0.2
    assert size_endpoint(load, 0.2, 0.99, most_use=0.5).instances > size.instances


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Load(0, 1), "requests_per_s must be a positive number, not 0."),
        (lambda: Load(1e12, 1), "requests_per_s must be at most 1e+07, not 1e+12."),
        (lambda: Load(1, float("nan")), "service_s must be a positive number, not nan."),
        (lambda: Load(1, 1, -4), "workers must be a positive number, not -4."),
        (
            lambda: size_endpoint(Load(1, 1), 0.5),
            "a request takes 1 s on a free worker: more workers cannot reach 0.5 s.",
        ),
        (
            lambda: size_endpoint(Load(1, 1, is_varying=True), 4),
            "0.99 of the requests take up to 4.605 s on a free worker: more workers cannot reach 4 s.",
        ),
        (lambda: size_endpoint(Load(1, 1), 2, 99), "percentile must be above 0 and below 1, not 99."),
        (lambda: size_endpoint(Load(1, 1), 2, 1), "percentile must be above 0 and below 1, not 1."),
        (lambda: size_endpoint(Load(1, 1), 2, most_use=80), "most_use must be at most 1, not 80."),
        (lambda: size_endpoint(Load(1e7, 1), 2), "more than 1,000,000 workers would be needed."),
        (lambda: estimate_wait_s(Load(10, 1), 5, 0.9), "5 instances answer 5 requests in a second, and 10 come"),
        (lambda: compute_waiting_share(0, 1), "workers must be a positive number, not 0."),
        (lambda: compute_concurrency(-1, 1), "requests_per_s must be a positive number, not -1."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        call()
    assert text in str(caught.value)
