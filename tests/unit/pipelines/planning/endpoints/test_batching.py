"""Test the largest batch and the bound of the latency with a seeded simulation of a server with batches."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pipelines.errors import SpecError
from pipelines.planning.endpoints.batching import bound_mean_latency_s, compute_batch_s, find_largest_batch


def simulate_latencies(
    requests_per_s: float, fixed_s: float, request_s: float, count: int, largest: int = 10**9
) -> list[float]:
    """Return the latencies of requests at random times, on a server that answers all that wait in one batch."""
    generator, clock, arrivals = random.Random(3), 0.0, []
    for _ in range(count):
        clock += generator.expovariate(requests_per_s)
        arrivals.append(clock)
    free, first, latencies = 0.0, 0, []
    while first < count:
        begin, last = max(free, arrivals[first]), first
        while last < count and arrivals[last] <= begin and last - first < largest:
            last += 1
        free = begin + compute_batch_s(last - first, fixed_s, request_s)
        latencies += [free - arrival for arrival in arrivals[first:last]]
        first = last
    return latencies


@pytest.mark.parametrize(("rate", "fixed_s", "request_s"), [(50, 0.01, 0.005), (100, 0.01, 0.005), (100, 0.1, 0.001)])
def test_bound_is_above_a_simulation_and_close_to_it(rate: float, fixed_s: float, request_s: float) -> None:
    """Inoue 2021: the bound approximates the mean latency. The simulation of 60,000 requests has some noise."""
    latencies = simulate_latencies(rate, fixed_s, request_s, 60_000)
    bound_s = bound_mean_latency_s(rate, fixed_s, request_s)
    assert 0.95 * bound_s < sum(latencies) / len(latencies) < 1.02 * bound_s


def test_one_request_at_a_time_is_an_upper_case() -> None:
    """Without a fixed part, batches bring nothing: the latency is longer than that of M/D/1."""
    assert bound_mean_latency_s(20, 0, 0.04) > 0.04 * (1 + 0.8 / (2 * 0.2))


def test_largest_batch_keeps_the_latency() -> None:
    """While no more requests wait than a batch holds, each is answered in two batches."""
    batch = find_largest_batch(0.2, 0.02, 0.005)
    assert batch == 16 and 2 * compute_batch_s(batch, 0.02, 0.005) == pytest.approx(0.2)
    latencies = simulate_latencies(80, 0.02, 0.005, 20_000, largest=batch)
    assert max(latencies) <= 0.2
    larger = simulate_latencies(199, 0.02, 0.005, 20_000)
    assert max(larger) > 0.2  # near the capacity, batches grow beyond it


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: compute_batch_s(0, 1, 1), "batch must be a positive number, not 0."),
        (lambda: compute_batch_s(1, -1, 1), "fixed_s must be a number of at least 0, not -1."),
        (lambda: find_largest_batch(0.01, 0.02, 0.005), "a batch of one request takes 0.025 s: no request can be"),
        (lambda: find_largest_batch(float("nan"), 0.02, 0.005), "latency_s must be a positive number, not nan."),
        (lambda: bound_mean_latency_s(200, 0.02, 0.005), "a server answers at most 200 requests in a second"),
        (lambda: bound_mean_latency_s(0, 0.02, 0.005), "requests_per_s must be a positive number, not 0."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        call()
    assert text in str(caught.value)
