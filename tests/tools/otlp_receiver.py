"""Receive spans over OTLP/HTTP, in protobuf (Airflow) and in JSON (Leeway), as an OpenTelemetry collector does."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """A span that was received. Ids are hex digits; `parent` is empty for a root."""

    name: str
    trace: str
    id: str
    parent: str
    start_ns: int
    end_ns: int
    is_error: bool
    attributes: dict[str, Any]
    service: str


@dataclass
class Collector:
    """What was received so far."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def select(self, **fields: Any) -> list[Span]:
        """Return the spans whose fields have these values."""
        return [span for span in list(self.spans) if all(getattr(span, name) == fields[name] for name in fields)]

    def find(self, **fields: Any) -> Span:
        """Return the only span whose fields have these values. A span that was received twice counts once."""
        (span,) = {span.id: span for span in self.select(**fields)}.values()
        return span


@contextmanager
def run_collector() -> Iterator[Collector]:
    """Run a collector on a free loopback port while the block runs."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            is_json = self.headers["Content-Type"] == "application/json"
            assert self.path == "/v1/traces"
            collector.bodies.append(body)
            collector.headers.append(dict(self.headers))
            collector.spans += _read_spans(_parse_json(body) if is_json else ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        collector.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield collector
        server.shutdown()


def _parse_json(body: bytes) -> ExportTraceServiceRequest:
    """Parse OTLP's JSON. Unlike protobuf's own JSON, it has ids as hex digits."""
    from base64 import b64encode

    from google.protobuf.json_format import ParseDict

    request = json.loads(body)
    for resource_spans in request["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            for span in scope_spans["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    span[name] = b64encode(bytes.fromhex(span[name])).decode()
    return ParseDict(request, ExportTraceServiceRequest())


def _read_spans(request: ExportTraceServiceRequest) -> list[Span]:
    return [
        Span(
            name=span.name,
            trace=span.trace_id.hex(),
            id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            is_error=span.status.code == 2,
            attributes=_read_attributes(span.attributes),
            service=_read_attributes(resource_spans.resource.attributes).get("service.name", ""),
        )
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def _read_attributes(attributes: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}
