"""Compare what requests cost in a month: real-time, serverless and asynchronous endpoints, and batch jobs."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.errors import SpecError
from pipelines.planning.checkpoints import MONTH_H
from pipelines.planning.sizes import MAX_DEVICES, MAX_S, MAX_USD_PER_H, require_not_negative, require_positive

MAX_REQUESTS = 1e14
"""Largest number of requests in a month."""
MAX_WORKERS = 10_000
"""Largest number of requests that an instance answers at once."""
MONTH_S = MONTH_H * 3600
"""Seconds of a month."""


@dataclass(frozen=True)
class Traffic:
    """The requests of a month.

    Attributes:
        requests: requests in a month.
        service_s: time of a request, seconds.
        bursts: number of times in a month that requests come after a pause. An asynchronous endpoint starts each time.
        runs: batch jobs in a month, which answer the requests together.

    Raises:
        SpecError: a number is out of its range.
    """

    requests: float
    service_s: float
    bursts: float = MONTH_H
    runs: float = 30

    def __post_init__(self) -> None:
        """Check the numbers."""
        require_positive("requests", self.requests, MAX_REQUESTS)
        require_positive("service_s", self.service_s, 3600)
        require_positive("bursts", self.bursts, MAX_REQUESTS)
        require_positive("runs", self.runs, MAX_REQUESTS)


@dataclass(frozen=True)
class Prices:
    """Prices, and times that are paid although no request is answered.

    Attributes:
        usd_per_h: price of an instance, USD an hour.
        usd_per_gb_s: price of a serverless endpoint, USD for each GB of memory and second; 0 if there is none.
        memory_gb: memory of the serverless endpoint, GB.
        workers: requests that an instance answers at once.
        start_s: seconds until an instance of an asynchronous endpoint or of a batch job answers.
        idle_s: seconds until an asynchronous endpoint without requests has no instance.

    Raises:
        SpecError: a number is out of its range.
    """

    usd_per_h: float
    usd_per_gb_s: float = 0.0
    memory_gb: float = 2.0
    workers: int = 1
    start_s: float = 300.0
    idle_s: float = 600.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        require_positive("usd_per_h", self.usd_per_h, MAX_USD_PER_H)
        require_positive("memory_gb", self.memory_gb, 1e6)
        if self.memory_gb < 0.1:
            raise SpecError(f"memory_gb must be at least 0.1, not {self.memory_gb:g}.")
        require_positive("workers", self.workers, MAX_WORKERS)
        require_not_negative("usd_per_gb_s", self.usd_per_gb_s, 1)
        for name in ("start_s", "idle_s"):
            require_not_negative(name, getattr(self, name), MAX_S)


def compute_busy_h(traffic: Traffic, workers: int = 1) -> float:
    """Return the hours in which instances answer the requests of a month: `requests * service_s / (3600 * workers)`."""
    return traffic.requests * traffic.service_s / (3600 * workers)


def compute_real_time_usd(instances: int, prices: Prices) -> float:
    """Return what a real-time endpoint costs in a month, USD: `730 * instances * usd_per_h` for any number of requests.

    Raises:
        SpecError: the instances are not a positive number. A retry cannot help.
    """
    require_positive("instances", instances, MAX_DEVICES)
    return MONTH_H * instances * prices.usd_per_h


def compute_serverless_usd(traffic: Traffic, prices: Prices) -> float | None:
    """Return what a serverless endpoint costs in a month, USD; None without a price.

    The cost is `requests * service_s * memory_gb * usd_per_gb_s`. Source: AWS's price list, USD for each GB and second
    (docs/reference/costs.md). Cold starts, provisioned concurrency and data are not counted.
    """
    if not prices.usd_per_gb_s:
        return None
    return traffic.requests * traffic.service_s * prices.memory_gb * prices.usd_per_gb_s


def compute_async_usd(instances: int, traffic: Traffic, prices: Prices) -> float:
    """Return what an asynchronous endpoint that scales to zero costs in a month, USD.

    The cost is `usd_per_h * (busy_h + bursts * instances * (start_s + idle_s) / 3600)`, with `busy_h` from
    `compute_busy_h`. In each burst, the endpoint scales to as many instances as a real-time endpoint needs. For each
    instance, its start and the idle time before it ends are paid. This is an upper bound: an endpoint with fewer
    instances costs less, and answers later. The cost is never more than that of all instances for the whole month, or
    of the busy hours if they are more.

    Raises:
        SpecError: the instances are not a positive number. A retry cannot help.
    """
    require_positive("instances", instances, MAX_DEVICES)
    start_and_idle_h = traffic.bursts * instances * (prices.start_s + prices.idle_s) / 3600
    busy_h = compute_busy_h(traffic, prices.workers)
    return prices.usd_per_h * min(busy_h + start_and_idle_h, max(busy_h, MONTH_H * instances))


def compute_batch_usd(traffic: Traffic, prices: Prices) -> float:
    """Return what batch jobs cost in a month, USD: `usd_per_h * (busy_h + runs * start_s / 3600)`."""
    return prices.usd_per_h * (compute_busy_h(traffic, prices.workers) + traffic.runs * prices.start_s / 3600)


def compute_capacity(instances: int, service_s: float, workers: int = 1) -> float:
    """Return the most requests that an endpoint answers in a month: `730 * 3600 * instances * workers / service_s`.

    Raises:
        SpecError: a number is out of its range. A retry cannot help.
    """
    require_positive("instances", instances, MAX_DEVICES)
    require_positive("service_s", service_s, 3600)
    require_positive("workers", workers, MAX_WORKERS)
    return MONTH_S * instances * workers / service_s


def find_serverless_break_even(instances: int, service_s: float, prices: Prices) -> float | None:
    """Return the requests of a month from which a real-time endpoint is cheaper than a serverless one.

    It is `730 * instances * usd_per_h / (service_s * memory_gb * usd_per_gb_s)`. None if serverless has no price, or if
    the endpoint cannot answer so many requests (`compute_capacity`): then it is never cheaper.

    Raises:
        SpecError: a number is not positive. A retry cannot help.
    """
    capacity = compute_capacity(instances, service_s, prices.workers)
    if not prices.usd_per_gb_s:
        return None
    requests = compute_real_time_usd(instances, prices) / (service_s * prices.memory_gb * prices.usd_per_gb_s)
    return requests if requests <= capacity else None


def find_async_break_even(instances: int, traffic: Traffic, prices: Prices) -> float | None:
    """Return the bursts of a month from which a real-time endpoint costs no more than an asynchronous one.

    It is `max(0, 730 * instances - busy_h) * 3600 / (instances * (start_s + idle_s))`, with the same instances in each
    burst (`compute_async_usd`). None if a burst costs nothing beyond its requests.

    Raises:
        SpecError: the instances are not a positive number. A retry cannot help.
    """
    require_positive("instances", instances, MAX_DEVICES)
    start_and_idle_s = prices.start_s + prices.idle_s
    if not start_and_idle_s:
        return None
    idle_h = max(0.0, MONTH_H * instances - compute_busy_h(traffic, prices.workers))
    return idle_h * 3600 / (instances * start_and_idle_s)


def find_batch_break_even(instances: int, traffic: Traffic, prices: Prices) -> float | None:
    """Return the batch jobs of a month from which a real-time endpoint costs no more; None if a start is free.

    It is `max(0, 730 * instances - busy_h) * 3600 / start_s`, with `busy_h` from `compute_busy_h`.

    Raises:
        SpecError: the instances are not a positive number. A retry cannot help.
    """
    require_positive("instances", instances, MAX_DEVICES)
    if not prices.start_s:
        return None
    return max(0.0, MONTH_H * instances - compute_busy_h(traffic, prices.workers)) * 3600 / prices.start_s


def compare_modes(instances: int, traffic: Traffic, prices: Prices) -> dict[str, float]:
    """Return the cost of each mode in a month, USD, the cheapest first; without serverless if it has no price.

    Raises:
        SpecError: the instances are not a positive number. A retry cannot help.
    """
    costs = {
        "real-time": compute_real_time_usd(instances, prices),
        "serverless": compute_serverless_usd(traffic, prices),
        "async": compute_async_usd(instances, traffic, prices),
        "batch": compute_batch_usd(traffic, prices),
    }
    known_costs = {mode: cost for mode, cost in costs.items() if cost is not None}
    return dict(sorted(known_costs.items(), key=lambda item: item[1]))
