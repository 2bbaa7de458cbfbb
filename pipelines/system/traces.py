"""Record spans of this process in the trace that TRACEPARENT names, and send them to an OpenTelemetry collector.

The spans are sent as OTLP/HTTP in JSON. This module is part of the training job's bundle, so it imports the
standard library only.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

TRACEPARENT = "TRACEPARENT"
"""Variable with the trace and the span that a process continues: VERSION-TRACE-SPAN-FLAGS (W3C Trace Context)."""
TRACEPARENT_PATTERN = re.compile(
    r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
EXPORTERS = ("", "otlp", "otlp_proto_http")
"""Values of OTEL_TRACES_EXPORTER with which spans are sent. With any other value, such as `none`, no span is sent."""
DEFAULT_ENDPOINT = "http://localhost:4318"
SEND_TIMEOUT_S = 1.0
"""Longest time that a process waits for the collector. After a failure, the process sends no more spans to it."""
MAX_TEXT_CHARS = 200
"""Largest number of characters of a text in a span. The rest of the text is cut off."""
log = logging.getLogger("leeway")
_failed_endpoints: set[str] = set()


@contextmanager
def record_span(name: str, attributes: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Record a span while the block runs, and set TRACEPARENT to it.

    So spans of the block, and spans of processes that the block starts, become children of this span.

    Without a TRACEPARENT whose trace is sampled, nothing is recorded. If a span cannot be sent, a warning is logged and
    the span is lost. No error is raised in either case.

    Args:
        name: name of the span.
        attributes: what the span shows: texts, numbers and booleans. None of them may be a secret.

    Yields:
        The attributes, to which the block may add.
    """
    attributes = {} if attributes is None else attributes
    outer_traceparent = os.environ.get(TRACEPARENT, "")
    match = TRACEPARENT_PATTERN.fullmatch(outer_traceparent)
    if match is None or not int(match[3], 16) & 1 or not _is_tracing_enabled():
        yield attributes
        return
    # kind 1 is "internal"; of the status, code 1 is "ok" and code 2 "error" (OTLP).
    span = {"traceId": match[1], "spanId": secrets.token_hex(8), "parentSpanId": match[2], "name": name, "kind": 1}
    span["startTimeUnixNano"] = str(time.time_ns())
    os.environ[TRACEPARENT] = f"00-{match[1]}-{span['spanId']}-01"
    status = {"code": 1}
    try:
        yield attributes
    except BaseException as error:
        status = {"code": 2}
        attributes["error.type"] = type(error).__name__  # not its text, which may have values of the data
        raise
    finally:
        os.environ[TRACEPARENT] = outer_traceparent
        end = {"endTimeUnixNano": str(time.time_ns()), "attributes": _encode(attributes), "status": status}
        _send(span | end)


def _is_tracing_enabled() -> bool:
    """Return whether the variables of OpenTelemetry allow sending spans."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not is_disabled and os.environ.get("OTEL_TRACES_EXPORTER", "") in EXPORTERS


def _encode(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _encode_value(value)} for key, value in attributes.items()]


def _encode_value(value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)[:MAX_TEXT_CHARS]}


def _send(span: dict[str, Any]) -> None:
    """Send a span. Wait at most `SEND_TIMEOUT_S` seconds, in total and not for each part of the request."""
    url = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
    url = url or f"{(os.environ.get('OTEL_EXPORTER_OTLP_ENDPOINT') or DEFAULT_ENDPOINT).rstrip('/')}/v1/traces"
    if url in _failed_endpoints:
        return
    problems = [f"no answer within {SEND_TIMEOUT_S:g} s"]  # `_post` clears the list when the request has succeeded
    # A look-up of a name has no time-out, so the request runs in a thread, which ends with the process.
    thread = threading.Thread(target=_post, args=(url, _build_request(span), problems), daemon=True)
    thread.start()
    thread.join(SEND_TIMEOUT_S)
    if problems:
        _failed_endpoints.add(url)
        log.warning("traces: %s: %s; this process sends no more spans", urlsplit(url).hostname, problems[-1])


def _build_request(span: dict[str, Any]) -> dict[str, Any]:
    resource = {"service.name": "leeway"} | _parse_pairs(os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    if service_name := os.environ.get("OTEL_SERVICE_NAME"):  # it takes precedence, by the specification
        resource["service.name"] = service_name
    scope_spans = {"scope": {"name": "leeway"}, "spans": [span]}
    return {"resourceSpans": [{"resource": {"attributes": _encode(resource)}, "scopeSpans": [scope_spans]}]}


def _post(url: str, request: dict[str, Any], problems: list[str]) -> None:
    """Send a request, and clear `problems` once it has succeeded."""
    try:
        import ssl
        import urllib.request

        if urlsplit(url).scheme not in {"http", "https"}:
            raise ValueError("not an HTTP address")
        headers = {"Content-Type": "application/json", **_parse_pairs(_get_variable("HEADERS"))}
        certificate = _get_variable("CERTIFICATE") or None
        context = ssl.create_default_context(cafile=certificate) if url.startswith("https:") else None
        body = json.dumps(request).encode()
        message = urllib.request.Request(url, body, headers)  # noqa: S310
        urllib.request.urlopen(message, timeout=SEND_TIMEOUT_S, context=context).close()  # noqa: S310
        problems.clear()
    except Exception as error:
        problems.append(str(getattr(error, "reason", "") or type(error).__name__))


def _get_variable(name: str) -> str:
    """Return the OTLP variable for traces, or else the one for all signals; empty if neither is set."""
    return os.environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or os.environ.get(f"OTEL_EXPORTER_OTLP_{name}") or ""


def _parse_pairs(text: str) -> dict[str, str]:
    """Parse NAME=VALUE,NAME=VALUE, in which values are percent-encoded."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}
