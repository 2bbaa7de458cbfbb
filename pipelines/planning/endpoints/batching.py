"""Choose the largest batch of an inference server, and bound its latency. Formulas name their source."""

from __future__ import annotations

from pipelines.errors import SpecError
from pipelines.planning.sizes import require_not_negative, require_positive

MAX_BATCH = 1_000_000
"""Largest number of requests of a batch."""


def compute_batch_s(batch: int, fixed_s: float, request_s: float) -> float:
    """Return the seconds of a batch: `fixed_s + batch * request_s`.

    Source: Inoue 2021 (Queueing analysis of GPU-based inference servers with dynamic batching), which measured that the
    time of a batch on a GPU is such a linear function of its size.

    Args:
        batch: requests of the batch.
        fixed_s: seconds that a batch of any size takes.
        request_s: seconds that each request adds.

    Raises:
        SpecError: a number is out of its range. A retry cannot help.
    """
    require_positive("batch", batch)
    require_not_negative("fixed_s", fixed_s)
    require_positive("request_s", request_s)
    return fixed_s + batch * request_s


def find_largest_batch(latency_s: float, fixed_s: float, request_s: float) -> int:
    """Return the largest batch that answers requests in `latency_s`: `(latency_s / 2 - fixed_s) / request_s`.

    The result is rounded down.

    A request that comes just after a batch began waits for this batch, and is answered with the next one. So it takes
    at most the time of two batches, as long as no more requests come than fit into the batches.

    Args:
        latency_s: longest time of a request.
        fixed_s: seconds that a batch of any size takes.
        request_s: seconds that each request adds.

    Raises:
        SpecError: a number is out of its range, or not even one request is answered in time. A retry cannot help.
    """
    require_positive("latency_s", latency_s)
    single_s = compute_batch_s(1, fixed_s, request_s)
    batch = (latency_s / 2 - fixed_s) / request_s * (1 + 1e-12)  # a rounding error takes no request away
    if batch > MAX_BATCH:
        raise SpecError(
            f"more than {MAX_BATCH:,} requests would fit into a batch: each adds {request_s:g} s.",
            "Check the units of the times.",
        )
    if batch < 1:
        raise SpecError(
            f"a batch of one request takes {single_s:g} s: no request can be answered in {latency_s:g} s after it "
            "has waited for another batch.",
            "Use a faster instance, or allow a longer latency.",
        )
    return int(batch)


def bound_mean_latency_s(requests_per_s: float, fixed_s: float, request_s: float) -> float:
    """Return an upper bound of the mean latency of a server that puts all waiting requests into one batch.

    Source: Inoue 2021, the closed-form bound, with `l` requests in a second, `a = request_s` and `f = fixed_s`: the
    smaller one of `(a + f) / (2 * (1 - l * a)) * (1 + 2 * l * f + (1 - l * f) / (1 + l * a))` and
    `3 * f / (2 * (1 - l * a)) + a / 2 * (l * a + 2) / (1 - (l * a)^2)`. Arrivals are independent (Poisson), times
    are constant. The tests compare it with a simulation.

    Args:
        requests_per_s: requests of one server in a second.
        fixed_s: seconds that a batch of any size takes.
        request_s: seconds that each request adds.

    Raises:
        SpecError: a number is out of its range, or more requests come than the server can answer. A retry cannot help.
    """
    require_positive("requests_per_s", requests_per_s)
    compute_batch_s(1, fixed_s, request_s)
    request_load, fixed_load = requests_per_s * request_s, requests_per_s * fixed_s  # `l a` and `l f`
    if request_load >= 1:
        raise SpecError(
            f"a server answers at most {1 / request_s:g} requests in a second, and {requests_per_s:g} come.",
            "Use more instances.",
        )
    factor = 1 + 2 * fixed_load + (1 - fixed_load) / (1 + request_load)
    first_bound_s = (request_s + fixed_s) / (2 * (1 - request_load)) * factor
    second_bound_s = 1.5 * fixed_s / (1 - request_load) + request_s / 2 * (request_load + 2) / (1 - request_load**2)
    return min(first_bound_s, second_bound_s)
