"""Size an endpoint from its requests and the latency that is wanted, by Little's law and queues. Sources are named."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.errors import SpecError
from pipelines.planning.sizes import MAX_DEVICES, MAX_S, require_positive, require_share

MAX_RATE = 1e7
"""Largest number of requests per second."""
TOO_MANY = f"more than {MAX_DEVICES:,} workers would be needed."
TOO_MANY_HINT = "Check the units of requests and times, and `most_use`."


@dataclass(frozen=True)
class Load:
    """The requests of an endpoint.

    Attributes:
        requests_per_s: mean number of requests in a second, in the busiest minutes.
        service_s: mean time of a request on a worker that is free.
        workers: requests that an instance answers at once, each in `service_s`.
        is_varying: True: the times of requests are exponential, so that their standard deviation is their mean. False:
            they are nearly equal, as those of most models.

    Raises:
        SpecError: a number is out of its range.
    """

    requests_per_s: float
    service_s: float
    workers: int = 1
    is_varying: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        require_positive("requests_per_s", self.requests_per_s, MAX_RATE)
        require_positive("service_s", self.service_s, 3600)
        require_positive("workers", self.workers, 10_000)

    @property
    def busy_workers(self) -> float:
        """Mean number of workers that are busy: `requests_per_s * service_s` (Little 1961)."""
        return self.requests_per_s * self.service_s


@dataclass(frozen=True)
class EndpointSize:
    """A number of instances, with their utilization and latencies.

    Attributes:
        instances: number of instances.
        use: utilization: share of the workers that are busy.
        mean_latency_s: mean time of a request, with its wait.
        latency_s: time of a request at the percentile, with its wait: `estimate_latency_s`.
        concurrency: mean number of requests in the endpoint, by Little's law.
    """

    instances: int
    use: float
    mean_latency_s: float
    latency_s: float
    concurrency: float


def compute_concurrency(requests_per_s: float, latency_s: float) -> float:
    """Return the mean number of requests in a system: `requests_per_s * latency_s`.

    Source: Little 1961 (A proof for the queuing formula L = lambda W). It assumes nothing about arrivals.

    Raises:
        SpecError: a number is not positive. A retry cannot help.
    """
    require_positive("requests_per_s", requests_per_s, MAX_RATE)
    require_positive("latency_s", latency_s)
    return requests_per_s * latency_s


def compute_waiting_share(workers: int, busy_workers: float) -> float:
    """Return the share of requests that have to wait for a worker (Erlang C); 1 if the workers are not enough.

    Source: Erlang 1917; Kleinrock 1975 (Queueing Systems 1), section 3.5. Arrivals are independent (Poisson), and times
    of service exponential. By Erlang B's recursion `B(n) = a * B(n - 1) / (n + a * B(n - 1))`, `C = B / (1 - (a / n) *
    (1 - B))`, which does not overflow.

    Args:
        workers: number of workers `n` of all instances.
        busy_workers: mean number of busy workers `a`.

    Raises:
        SpecError: a number is not positive. A retry cannot help.
    """
    require_positive("workers", workers, MAX_DEVICES)
    require_positive("busy_workers", busy_workers)
    if busy_workers >= workers:
        return 1.0
    blocked_share = 1.0
    for count in range(1, workers + 1):
        blocked_share = busy_workers * blocked_share / (count + busy_workers * blocked_share)
    return _compute_erlang_c(blocked_share, workers, busy_workers)


def estimate_wait_s(load: Load, instances: int, percentile: float) -> float:
    """Return the percentile of the time that requests wait for a worker: `ln(C / (1 - p)) * s / (n - a)`.

    It is 0 if at most a share of `1 - p` of the requests has to wait.

    Source: Gross et al. 2008 (Fundamentals of Queueing Theory), section 2.3: the wait in M/M/n is exponential with
    probability C, else 0. It is an upper estimate if times of service vary less than exponential ones, as those of a
    model usually do.

    Args:
        load: the requests.
        instances: number of instances.
        percentile: 0.99 for the 99th percentile; above 0 and below 1.

    Raises:
        SpecError: a number is out of its range, or the instances are not enough. A retry cannot help.
    """
    _check_percentile(percentile)
    workers = _count_workers(load, instances)
    waiting_share = compute_waiting_share(workers, load.busy_workers)
    return _find_wait_s(waiting_share, load, workers, percentile)


def estimate_latency_s(load: Load, instances: int, percentile: float) -> float:
    """Return the time that the percentile of requests does not exceed, with the wait for a worker.

    If the times of service are nearly equal, it is the sum of `estimate_wait_s`, an upper estimate, and the time of
    service. If they vary, it is the percentile of the response time of M/M/n (Gross et al. 2008, section 2.3).

    Args:
        load: the requests.
        instances: number of instances.
        percentile: 0.99 for the 99th percentile; above 0 and below 1.

    Raises:
        SpecError: a number is out of its range, or the instances are not enough. A retry cannot help.
    """
    _check_percentile(percentile)
    workers = _count_workers(load, instances)
    return _find_latency_s(compute_waiting_share(workers, load.busy_workers), load, workers, percentile)


def size_endpoint(load: Load, latency_s: float, percentile: float = 0.99, most_use: float = 0.8) -> EndpointSize:
    """Return the smallest number of instances with which a percentile of the requests is answered in time.

    Args:
        load: the requests.
        latency_s: time in which the percentile of requests is answered.
        percentile: 0.99 for the 99th percentile; above 0 and below 1.
        most_use: largest mean share of busy workers, above 0 and at most 1. The rest is for busier moments.

    Raises:
        SpecError: a number is out of its range, a request takes `latency_s` or longer on a free worker, or more workers
            than `MAX_DEVICES` would be needed. A retry cannot help.
    """
    require_positive("latency_s", latency_s, MAX_S)
    require_share("most_use", most_use, is_zero_allowed=False)
    _check_percentile(percentile)
    no_wait_latency_s = load.service_s * (-math.log(1 - percentile) if load.is_varying else 1)
    if no_wait_latency_s >= latency_s:
        subject = f"{percentile:.4g} of the requests take up to" if load.is_varying else "a request takes"
        raise SpecError(
            f"{subject} {no_wait_latency_s:.4g} s on a free worker: more workers cannot reach {latency_s:g} s.",
            "Use a faster instance or a smaller model, or allow a longer latency.",
        )
    if load.busy_workers / most_use > MAX_DEVICES:
        raise SpecError(TOO_MANY, TOO_MANY_HINT)
    for workers, waiting_share in _list_waiting_shares(load):
        use = load.busy_workers / workers
        if use > most_use:
            continue
        percentile_s = _find_latency_s(waiting_share, load, workers, percentile)
        if percentile_s <= latency_s:
            mean_s = load.service_s + waiting_share * load.service_s / (workers - load.busy_workers)
            concurrency = compute_concurrency(load.requests_per_s, mean_s)
            return EndpointSize(workers // load.workers, use, mean_s, percentile_s, concurrency)
    raise SpecError(TOO_MANY, TOO_MANY_HINT)


def _list_waiting_shares(load: Load) -> Iterator[tuple[int, float]]:
    """Yield the workers of 1, 2, 3 ... instances, and the share of requests that wait; skip too few instances."""
    blocked_share = 1.0
    for count in range(1, MAX_DEVICES + 1):
        blocked_share = load.busy_workers * blocked_share / (count + load.busy_workers * blocked_share)
        if count % load.workers == 0 and count > load.busy_workers:
            yield count, _compute_erlang_c(blocked_share, count, load.busy_workers)


def _compute_erlang_c(blocked_share: float, workers: int, busy_workers: float) -> float:
    """Return the share of requests that wait (Erlang C) from the share that would be blocked (Erlang B)."""
    return blocked_share / (1 - busy_workers / workers * (1 - blocked_share))


def _find_wait_s(waiting_share: float, load: Load, workers: int, percentile: float) -> float:
    """Return the wait that the percentile of requests does not exceed."""
    if waiting_share <= 1 - percentile:
        return 0.0
    return math.log(waiting_share / (1 - percentile)) * load.service_s / (workers - load.busy_workers)


def _find_latency_s(waiting_share: float, load: Load, workers: int, percentile: float) -> float:
    """Return the latency that the percentile of requests does not exceed."""
    wait_s = _find_wait_s(waiting_share, load, workers, percentile)
    if not load.is_varying:
        return load.service_s + wait_s
    low_s, high_s = 0.0, wait_s + load.service_s
    while _compute_slower_share(high_s, waiting_share, load, workers) > 1 - percentile:
        high_s *= 2
    while high_s - low_s > 1e-9 * high_s:
        middle_s = (low_s + high_s) / 2
        is_low = _compute_slower_share(middle_s, waiting_share, load, workers) > 1 - percentile
        low_s, high_s = (middle_s, high_s) if is_low else (low_s, middle_s)
    return high_s


def _compute_slower_share(time_s: float, waiting_share: float, load: Load, workers: int) -> float:
    """Return the share of requests that take longer than `time_s`, with their wait, in M/M/n.

    A request that waits takes the sum of two exponential times: the wait with the mean `service / (n - a)`, and the
    service.
    """
    free_workers, time = workers - load.busy_workers, time_s / load.service_s
    if abs(free_workers - 1) < 1e-6:  # both means are equal
        slower_after_wait = (1 + time) * math.exp(-time)
    else:
        slower_after_wait = (free_workers * math.exp(-time) - math.exp(-free_workers * time)) / (free_workers - 1)
    return (1 - waiting_share) * math.exp(-time) + waiting_share * slower_after_wait


def _count_workers(load: Load, instances: int) -> int:
    require_positive("instances", instances, MAX_DEVICES)
    workers = instances * load.workers
    if load.busy_workers >= workers:
        raise SpecError(
            f"{instances} instances answer {workers / load.service_s:g} requests in a second, and "
            f"{load.requests_per_s:g} come: the wait grows without end.",
            f"More than {load.busy_workers / load.workers:g} instances are needed.",
        )
    return workers


def _check_percentile(percentile: float) -> None:
    if not 0 < percentile < 1:
        raise SpecError(f"percentile must be above 0 and below 1, not {percentile}.", "The 99th percentile is 0.99.")
