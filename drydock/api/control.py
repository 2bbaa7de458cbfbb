"""Answer drydock's own HTTP requests, under /drydock/: its health, and simulated failures, CPU use and spot prices."""

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from werkzeug.exceptions import BadRequest, Conflict, HTTPException, MethodNotAllowed, NotFound
from werkzeug.wrappers import Request, Response

from drydock import __version__
from drydock.api import sagemaker
from drydock.ec2.spot_prices import InvalidPrice, SpotPrices
from drydock.endpoints.faults import VariantFault
from drydock.endpoints.registry import Endpoints
from drydock.execution.queue import JobQueue
from drydock.faults.outages import Outage, Outages
from drydock.faults.spot_market import Interruption
from drydock.jobs.job import Job
from drydock.notebooks.item import APP, NOTEBOOK
from drydock.notebooks.registry import Notebooks

CONTROL_PREFIX = "/drydock/"
MAX_BODY_BYTES = 4 << 20
"""Largest body of a request under /drydock/."""
MAX_LATENCY_S = 3600.0
"""Largest latency that a simulated failure may add to a request."""
MAX_CPU_PERCENT = 100_000.0
"""Largest simulated CPU use of a notebook instance, percent of one core: a thousand cores."""

FIELDS = {
    "interrupt": ("job", "account_id", "region", "after_s", "no_capacity_s", "notice_s"),
    "capacity": ("instance_type", "available", "for_s"),
    "outage": ("service", "operation", "status", "code", "for_s", "times"),
    "variant": ("endpoint", "variant", "config", "error_rate", "status", "latency_s", "for_s"),
    "use": ("notebook", "app", "cpu"),
    "spot-prices": ("instance_type", "region", "zone", "prices"),
}
"""The fields of each POST request."""

# The field of the request `use` with the name of a notebook instance or Studio app, by the kind.
_FIELDS_BY_KIND = {NOTEBOOK: "notebook", APP: "app"}

Body = Mapping[str, Any]
Handler = Callable[[Body], dict[str, Any]]
"""A function that answers the requests of one path: it gets the request's body, and returns the response's body."""


class ControlEndpoints:
    """The WSGI application of the paths under /drydock/, which are not endpoints of SageMaker.

    Args:
        queue: Runs the jobs.
        outages: The simulated outages, to which clients add.
        endpoints: The endpoints of all accounts and regions.
        spot_prices: The spot prices of all regions.
        notebooks: The notebook instances and Studio apps of all accounts and regions.
    """

    def __init__(
        self,
        queue: JobQueue,
        outages: Outages,
        endpoints: Endpoints,
        spot_prices: SpotPrices,
        notebooks: Notebooks,
    ) -> None:
        self._queue, self._outages, self._endpoints = queue, outages, endpoints
        self._spot_prices, self._notebooks = spot_prices, notebooks
        self._handlers: dict[tuple[str, str], Handler] = {
            ("GET", "health"): self._describe_health,
            ("GET", "spot"): lambda _: queue.market.describe(),
            ("POST", "interrupt"): self._interrupt,
            ("POST", "capacity"): self._set_capacity,
            ("POST", "outage"): self._begin_outage,
            ("POST", "variant"): self._add_variant_fault,
            ("POST", "spot-prices"): self._set_spot_prices,
            ("POST", "use"): self._record_use,
        }

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request with a JSON object; its only key is `error` if the request failed."""
        request = Request(environ)
        try:
            handler, fields = self._find_handler(request), _read_body(request)
            _check_fields(request.path.removeprefix(CONTROL_PREFIX), fields)
            content = handler(fields)
            response = Response(json.dumps(content), content_type="application/json")
        except HTTPException as error:
            body = json.dumps({"error": error.description})
            response = Response(body, status=error.code, content_type="application/json")
        return response(environ, start_response)

    def _find_handler(self, request: Request) -> Handler:
        requested_name = request.path.removeprefix(CONTROL_PREFIX)
        handlers = {method: handler for (method, name), handler in self._handlers.items() if name == requested_name}
        if not handlers:
            paths = ", ".join(f"{method} {CONTROL_PREFIX}{name}" for method, name in self._handlers)
            raise NotFound(f"no path {request.path}; the paths are {paths}")
        if request.method not in handlers:
            raise MethodNotAllowed(description=f"use {', '.join(handlers)}")
        return handlers[request.method]

    def _describe_health(self, _: Body) -> dict[str, Any]:
        executor = {"executor": type(self._queue.executor).__name__, "opt_ml": self._queue.executor.has_opt_ml}
        status = {"status": "ok", "version": __version__, "pid": os.getpid(), **executor}
        counts = {
            "jobs": sagemaker.count_jobs_by_status(),
            "endpoints": self._endpoints.count_by_status(),
            "instance_restarts": self._endpoints.count_restarts(),
            "standby_processes": self._endpoints.count_standbys(),
            "invocation_timeouts": self._endpoints.metrics.timeout_count,
        }
        return {**status, **counts, **self._queue.describe_load()}

    def _interrupt(self, body: Body) -> dict[str, Any]:
        job, policy = self._find_unfinished_spot_job(body), self._queue.market.policy
        # `after_s` of the request counts from now, or from the start of the next run if none is in progress. That of an
        # `Interruption` counts from the start of its run.
        running_s = (time.time() - job.record.transitions[-1].start.timestamp()) if job.phase == "Training" else 0.0
        after_s = _get_number(body, "after_s", 0.0)
        no_capacity_s = _get_number(body, "no_capacity_s", policy.no_capacity_s)
        notice_s = _get_number(body, "notice_s", policy.notice_s)
        self._queue.market.request_interruption(job, Interruption(running_s + after_s, no_capacity_s, notice_s))
        return {"job": job.name, "after_s": after_s, "no_capacity_s": no_capacity_s, "notice_s": notice_s}

    def _find_unfinished_spot_job(self, body: Body) -> Job:
        filters = {key: _get_text(body, key, "") for key in ("account_id", "region")}
        name = _get_text(body, "job")
        jobs = [
            job
            for job in sagemaker.iter_jobs()
            if job.name == name and all(not value or getattr(job, key) == value for key, value in filters.items())
        ]
        if len(jobs) != 1:
            raise NotFound("several jobs of that name: give account_id and region" if jobs else "no job of that name")
        job = jobs[0]
        if job.status.is_final:
            raise Conflict(f"job {job.name} has ended as {job.status}")
        if not job.is_spot:
            raise Conflict(f"job {job.name} is not a spot job")
        return job

    def _set_capacity(self, body: Body) -> dict[str, Any]:
        if not isinstance(body.get("available"), bool):
            raise BadRequest("available must be true or false")
        duration_s = _get_number(body, "for_s", math.inf)
        instance_type = _get_text(body, "instance_type", "*")
        self._queue.market.set_capacity(
            instance_type, body["available"], None if duration_s == math.inf else duration_s
        )
        return {"instance_type": instance_type, "available": body["available"]}

    def _begin_outage(self, body: Body) -> dict[str, Any]:
        status = _get_number(body, "status", 503)
        if not 400 <= status < 600:
            raise BadRequest(f"status must be 400 to 599, not {status:g}")
        ends_at = time.monotonic() + _get_number(body, "for_s", 5.0)
        service, code = _get_text(body, "service"), _get_text(body, "code", "SlowDown")
        error_count = _get_number(body, "times", math.inf)
        operation = _get_text(body, "operation", "")
        self._outages.add(Outage(service, operation, int(status), code, ends_at, error_count))
        return {"service": service, "code": code}

    def _add_variant_fault(self, body: Body) -> dict[str, Any]:
        error_rate, status = _get_number(body, "error_rate", 0.0), _get_number(body, "status", 500)
        if error_rate > 1:
            raise BadRequest(f"error_rate must be 0 to 1, not {error_rate:g}")
        if not 400 <= status < 600:
            raise BadRequest(f"status must be 400 to 599, not {status:g}")
        latency_s = _get_number(body, "latency_s", 0.0)
        if latency_s > MAX_LATENCY_S:
            raise BadRequest(f"latency_s must be at most {MAX_LATENCY_S:g}, not {latency_s:g}")
        fault = VariantFault(
            variant=_get_text(body, "variant", ""),
            config_name=_get_text(body, "config", ""),
            error_rate=error_rate,
            error_status=int(status),
            latency_s=latency_s,
            ends_at=time.monotonic() + _get_number(body, "for_s", math.inf),
        )
        name = _get_text(body, "endpoint")
        endpoints = [endpoint for endpoint in self._endpoints.iterate() if endpoint.name == name]
        if not endpoints:
            raise NotFound(f"no endpoint {name}")
        configs = [
            config for endpoint in endpoints for config in endpoint.list_configs() if fault.matches(config.config_name)
        ]
        variants = {variant.name for config in configs for variant in config.variants}
        # Without `configs`, no endpoint has the configuration yet. A later update may use it, with any variants.
        if configs and fault.variant not in ("", *variants):
            raise NotFound(
                f"endpoint {name} has no variant {fault.variant}; its variants: {', '.join(sorted(variants))}"
            )
        for endpoint in endpoints:
            endpoint.faults.add(fault)
        return {"endpoint": name, "variant": fault.variant, "config": fault.config_name, "serving": bool(configs)}

    def _set_spot_prices(self, body: Body) -> dict[str, Any]:
        instance_type, region, prices = _get_text(body, "instance_type"), _get_text(body, "region"), body.get("prices")
        zone = _get_text(body, "zone", f"{region}a")
        if not isinstance(prices, list) or not all(isinstance(item, list) and len(item) == 2 for item in prices):
            raise BadRequest("prices must be a list of lists: a time, and a price in US dollars an hour")
        try:
            self._spot_prices.write(region, instance_type, zone, [(begin, usd_h) for begin, usd_h in prices])
        except InvalidPrice as error:
            raise BadRequest(str(error)) from None
        return {"instance_type": instance_type, "zone": zone, "prices": len(prices)}

    def _record_use(self, body: Body) -> dict[str, Any]:
        names = {kind: _get_text(body, field) for kind, field in _FIELDS_BY_KIND.items() if field in body}
        if len(names) != 1:
            raise BadRequest(f"give one of {', '.join(_FIELDS_BY_KIND.values())}")
        ((kind, name),) = names.items()
        cpu_percent = _get_number(body, "cpu", 50.0)
        if cpu_percent > MAX_CPU_PERCENT:
            raise BadRequest(f"cpu must be at most {MAX_CPU_PERCENT:g}, not {cpu_percent:g}; 100 is one core")
        if not self._notebooks.record_use(kind, name, cpu_percent):
            raise NotFound(f"no {_FIELDS_BY_KIND[kind]} {name} is InService")
        return {_FIELDS_BY_KIND[kind]: name}


def _read_body(request: Request) -> Body:
    if request.method == "GET":
        return {}
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise BadRequest("the body is too long")
    try:
        content = json.loads(request.get_data() or b"{}")
    except (ValueError, RecursionError):
        raise BadRequest("the body must be a JSON object") from None
    if not isinstance(content, dict):
        raise BadRequest("the body must be a JSON object")
    return content


def _check_fields(name: str, body: Body) -> None:
    """Refuse unknown fields: the caller would not notice that a misspelled field has no effect."""
    fields = FIELDS.get(name, ())
    if unknown_fields := sorted(body.keys() - set(fields)):
        raise BadRequest(f"unknown field {unknown_fields[0][:60]!r}; the fields are {', '.join(fields)}")


def _get_number(body: Body, key: str, default: float) -> float:
    value = body.get(key, default)
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        with contextlib.suppress(OverflowError):  # an integer in JSON may have any size
            return float(value)
    raise BadRequest(f"{key} must be a number of at least 0")


def _get_text(body: Body, key: str, default: str | None = None) -> str:
    value = body.get(key, default)
    if value is None and key in body:  # null, which means the same as no field
        value = default
    if not isinstance(value, str):
        raise BadRequest(f"{key} must be a string")
    return value
