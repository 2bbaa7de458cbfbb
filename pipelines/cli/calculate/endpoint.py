"""`python -m pipelines calculate endpoint`: instances for a latency, the largest batch, and the cheapest mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from pipelines.cli.calculate.output import Report
from pipelines.errors import SpecError
from pipelines.planning.endpoints import pricing
from pipelines.planning.endpoints.batching import bound_mean_latency_s, find_largest_batch
from pipelines.planning.endpoints.sizing import Load, size_endpoint

FORMULAS_OF_MODES = {
    "real-time": "real_time_usd",
    "serverless": "serverless_usd",
    "async": "async_usd",
    "batch": "batch_usd",
}
"""Maps each mode (way to answer requests) to the name of its formula for the cost of a month."""
DEFAULT_MEMORY_GB = 2.0
"""Memory of a serverless endpoint without --memory-gb."""


@dataclass(frozen=True, kw_only=True)
class EndpointRequest:
    """The options of the command. `prerequisites` maps an option to others: one of these must be given, too."""

    prerequisites: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "usd_per_h": ("requests_per_month",),
        "serverless_usd": ("requests_per_month",),
        "memory_gb": ("requests_per_month",),
        "bursts": ("requests_per_month",),
        "runs": ("requests_per_month",),
        "start_s": ("requests_per_month",),
        "idle_s": ("requests_per_month",),
    }
    requests_per_s: Annotated[float, typer.Option(help="Mean requests in a second, in the busiest minutes.")]
    service_s: Annotated[float, typer.Option(help="Mean seconds of a request on a free worker.")]
    latency_s: Annotated[float, typer.Option(help="Highest latency at --percentile that is allowed, seconds.")]
    percentile: Annotated[float, typer.Option(help="Percentile of the latency: 0.99 is the 99th.")] = 0.99
    workers: Annotated[int, typer.Option(help="Requests that an instance answers at the same time.")] = 1
    varying: Annotated[
        bool,
        typer.Option("--varying", help="The service times of requests are exponential; by default, nearly equal."),
    ] = False
    most_use: Annotated[float, typer.Option(help="Largest utilization: share of the workers that are busy.")] = 0.8
    fixed_s: Annotated[
        float | None, typer.Option(help="Fixed time of a batch, seconds. With it, the largest batch is also computed.")
    ] = None
    usd_per_h: Annotated[float | None, typer.Option(help="Price of an instance, USD an hour.")] = None
    requests_per_month: Annotated[
        float | None, typer.Option(help="Compare the cost of real-time, serverless, asynchronous and batch.")
    ] = None
    serverless_usd: Annotated[float, typer.Option(help="Serverless price, USD per GB-second; 0: not compared.")] = 2e-5
    memory_gb: Annotated[float | None, typer.Option(help="Memory of a serverless endpoint, GB (default: 2).")] = None
    bursts: Annotated[float, typer.Option(help="Starts of an asynchronous endpoint in a month.")] = 730
    runs: Annotated[float, typer.Option(help="Batch jobs in a month.")] = 30
    start_s: Annotated[float, typer.Option(help="Seconds until a new instance answers; the default is a guess.")] = 300
    idle_s: Annotated[
        float,
        typer.Option(
            help="Seconds until an asynchronous endpoint without requests scales to zero; the default is a guess."
        ),
    ] = 600


def calculate_endpoint(request: EndpointRequest) -> Report:
    """Calculate the instances of an endpoint for a latency; with --requests-per-month, the monthly cost of each mode.

    Example: python -m pipelines calculate endpoint --requests-per-s 20 --service-s 0.1 --latency-s 0.5
    --usd-per-h 0.23 --requests-per-month 1e6
    """
    load = Load(request.requests_per_s, request.service_s, request.workers, request.varying)
    size = size_endpoint(load, request.latency_s, request.percentile, request.most_use)
    formula = "varying_latency" if request.varying else "equal_latency"
    report = Report("Endpoint")
    report.add("busy workers", load.busy_workers, unit="", formula="busy_workers")
    report.add("instances", size.instances, unit="", formula="endpoint_instances")
    report.add("use", size.use, "share of the workers", "worker_use")
    report.add(f"latency, percentile {100 * request.percentile:g}", size.latency_s, "s", formula)
    report.add("requests in the endpoint", size.concurrency, unit="", formula="concurrency")
    service_times = (
        "exponentially distributed times of requests"
        if request.varying
        else "nearly equal times of requests. The wait is computed for exponentially distributed times, so it is an "
        "upper estimate. If the times vary, add --varying"
    )
    report.notes.append(f"Assumed: independent requests, and {service_times}.")
    if request.fixed_s is not None:
        _add_batches(report, request, size.instances, request.fixed_s)
    if request.requests_per_month is not None:
        _add_modes(report, request, size.instances, request.requests_per_month)
    return report


def _add_batches(report: Report, request: EndpointRequest, instances: int, fixed_s: float) -> None:
    """Add the largest batch of an instance, and the upper bound of the mean latency with such batches."""
    request_s = request.service_s - fixed_s  # time that each further request adds to a batch
    if request_s <= 0:
        raise SpecError(f"fixed_s ({fixed_s:g}) must be less than service_s ({request.service_s:g}).")
    batch = find_largest_batch(request.latency_s, fixed_s, request_s)
    report.add("largest batch", batch, "requests", "largest_request_batch")
    bound_s = bound_mean_latency_s(request.requests_per_s / instances, fixed_s, request_s)
    report.add("mean latency with batches, at most", bound_s, "s", "batch_bound")


def _add_modes(report: Report, request: EndpointRequest, instances: int, requests: float) -> None:
    """Add the monthly cost of each way to answer requests."""
    if request.usd_per_h is None:
        raise SpecError("--requests-per-month needs --usd-per-h, the price of an instance.")
    _require_consistent_load(requests, request.requests_per_s)
    if not request.serverless_usd and request.memory_gb is not None:
        raise SpecError("--memory-gb has no effect with --serverless-usd 0.", "Give a price, or leave out the memory.")
    memory_gb = DEFAULT_MEMORY_GB if request.memory_gb is None else request.memory_gb
    traffic = pricing.Traffic(requests, request.service_s, request.bursts, request.runs)
    prices = pricing.Prices(
        request.usd_per_h,
        request.serverless_usd,
        memory_gb,
        request.workers,
        request.start_s,
        request.idle_s,
    )
    costs = pricing.compare_modes(instances, traffic, prices)
    for mode, cost_usd in costs.items():
        report.add(f"{mode}, a month", cost_usd, "USD", FORMULAS_OF_MODES[mode])
    _add_break_evens(report, instances, traffic, prices)
    report.notes.append(f"The cheapest is {next(iter(costs))}. Only real-time and serverless answer at once.")


def _require_consistent_load(requests: float, requests_per_s: float) -> None:
    """Check that a month has at most the requests of its busiest second, times its number of seconds.

    Raises:
        SpecError: the month has more requests. A retry cannot help.
    """
    max_requests = requests_per_s * pricing.MONTH_S
    if requests > max_requests:
        raise SpecError(
            f"requests_per_month must be at most {max_requests:.4g}, not {requests:g}: a month has "
            f"{pricing.MONTH_S:,.0f} s, with at most {requests_per_s:g} requests each.",
            "Correct one of the two numbers.",
        )


def _add_break_evens(report: Report, instances: int, traffic: pricing.Traffic, prices: pricing.Prices) -> None:
    """Add the number of requests, bursts and jobs a month from which on real-time costs no more than the other modes.

    A mode without a price, or whose starts cost nothing, has no such number.
    """
    break_evens = {
        "requests": ("serverless", pricing.find_serverless_break_even(instances, traffic.service_s, prices)),
        "bursts": ("async", pricing.find_async_break_even(instances, traffic, prices)),
        "jobs": ("batch", pricing.find_batch_break_even(instances, traffic, prices)),
    }
    for unit, (mode, count) in break_evens.items():
        is_never = mode == "serverless" and prices.usd_per_gb_s > 0 and count is None
        if count is not None or is_never:
            report.add(f"real-time costs no more than {mode} from", count, f"{unit} a month", f"{mode}_break_even")
        if is_never:
            max_requests = pricing.compute_capacity(instances, traffic.service_s, prices.workers)
            report.notes.append(
                f"Real-time is never cheaper than serverless: {instances} instance(s) answer at most "
                f"{max_requests:,.0f} requests a month, which cost no more on serverless."
            )
