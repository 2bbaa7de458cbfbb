"""drydock's own pages, under /drydock/: its health, and the levers of a rehearsal."""

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
from drydock.api import backend
from drydock.execution.queue import Yard
from drydock.jobs.job import Job
from drydock.rehearsal.outages import Outage, Outages
from drydock.rehearsal.spot_market import Interruption

PREFIX = "/drydock/"
MAX_BODY_BYTES = 64 * 1024


class Control:
    """The WSGI application of the pages.

    Args:
        yard: Runs the jobs.
        outages: Where rehearsed outages begin.
    """

    def __init__(self, yard: Yard, outages: Outages) -> None:
        self._yard, self._outages = yard, outages
        self._pages: dict[tuple[str, str], Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            ("GET", "health"): self._health,
            ("GET", "spot"): lambda _: yard.market.describe(),
            ("POST", "interrupt"): self._interrupt,
            ("POST", "capacity"): self._capacity,
            ("POST", "outage"): self._outage,
        }

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request: JSON, or an error in a line."""
        request = Request(environ)
        try:
            answer = self._page(request)(_body(request))
            response = Response(json.dumps(answer), content_type="application/json")
        except HTTPException as error:
            said = json.dumps({"error": error.description})
            response = Response(said, status=error.code, content_type="application/json")
        return response(environ, start_response)

    def _page(self, request: Request) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        name = request.path.removeprefix(PREFIX)
        found = {method: page for (method, known), page in self._pages.items() if known == name}
        if not found:
            pages = ", ".join(f"{method} {PREFIX}{known}" for method, known in self._pages)
            raise NotFound(f"no page {request.path}; there are {pages}")
        if request.method not in found:
            raise MethodNotAllowed(description=f"use {', '.join(found)}")
        return found[request.method]

    def _health(self, _: Mapping[str, Any]) -> dict[str, Any]:
        executor = {"executor": type(self._yard.executor).__name__, "opt_ml": self._yard.executor.opt_ml}
        status = {"status": "ok", "version": __version__, "pid": os.getpid(), **executor}
        return {**status, "jobs": backend.jobs_by_status(), **self._yard.load()}

    def _interrupt(self, body: Mapping[str, Any]) -> dict[str, Any]:
        job, policy = self._job(body), self._yard.market.policy
        running = (time.time() - job.record.transitions[-1].start.timestamp()) if job.phase == "Training" else 0.0
        after = _number(body, "after_s", 0.0)
        back = _number(body, "capacity_back_after_s", policy.capacity_back_after_s)
        notice = _number(body, "notice_s", policy.notice_s)
        self._yard.market.order(job, Interruption(running + after, back, notice))
        return {"job": job.name, "after_s": after, "capacity_back_after_s": back, "notice_s": notice}

    def _job(self, body: Mapping[str, Any]) -> Job:
        asked = {key: _text(body, key, "") for key in ("account_id", "region")}
        found = [
            job
            for job in backend.jobs()
            if job.name == _text(body, "job")
            and all(not value or getattr(job, key) == value for key, value in asked.items())
        ]
        if len(found) != 1:
            raise NotFound("several jobs of that name: give account_id and region" if found else "no job of that name")
        if found[0].status.ended or not found[0].spot:
            why = f"has ended as {found[0].status}" if found[0].status.ended else "is no spot job"
            raise Conflict(f"job {found[0].name} {why}")
        return found[0]

    def _capacity(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(body.get("available"), bool):
            raise BadRequest("available must be true or false")
        for_s = _number(body, "for_s", math.inf)
        instance_type = _text(body, "instance_type", "*")
        self._yard.market.set_capacity(instance_type, body["available"], None if for_s == math.inf else for_s)
        return {"instance_type": instance_type, "available": body["available"]}

    def _outage(self, body: Mapping[str, Any]) -> dict[str, Any]:
        status = _number(body, "status", 503)
        if not 400 <= status < 600:
            raise BadRequest(f"status must be 400 to 599, not {status:g}")
        until = time.monotonic() + _number(body, "for_s", 5.0)
        service, code = _text(body, "service"), _text(body, "code", "SlowDown")
        left = _number(body, "times", math.inf)
        self._outages.add(Outage(service, _text(body, "operation", ""), int(status), code, until, left))
        return {"service": service, "code": code}


def _body(request: Request) -> Mapping[str, Any]:
    if request.method == "GET":
        return {}
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise BadRequest("the body is too long")
    try:
        content = json.loads(request.get_data() or b"{}")
    except ValueError:
        raise BadRequest("the body must be a JSON object") from None
    if not isinstance(content, dict):
        raise BadRequest("the body must be a JSON object")
    return content


def _number(body: Mapping[str, Any], key: str, default: float) -> float:
    value = body.get(key, default)
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        with contextlib.suppress(OverflowError):  # an integer of JSON has no limit
            return float(value)
    raise BadRequest(f"{key} must be a number of at least 0")


def _text(body: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = body.get(key, default)
    if value is None and key in body:
        value = default
    if not isinstance(value, str):
        raise BadRequest(f"{key} must be a text")
    return value
