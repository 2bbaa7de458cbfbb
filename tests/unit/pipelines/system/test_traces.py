"""Test the spans of a process: what a collector receives, and that a collector that fails costs little."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.system import traces
from pipelines.system.traces import record_span
from tests.tools.otlp_receiver import Collector, run_collector

ROOT = Path(__file__).parents[4]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with run_collector() as collector:
        monkeypatch.setenv("TRACEPARENT", TRACEPARENT)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


@pytest.fixture(autouse=True)
def _no_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_failed_endpoints", set())


def test_span_continues_the_trace_and_inner_spans_and_children_continue_the_span(collector: Collector) -> None:
    before_ns = time.time_ns()
    with record_span("outer", {"text": "x" * 1_000}) as attributes:
        child_traceparent = os.environ["TRACEPARENT"]
        with record_span("inner", {"number": 3, "share": 0.5, "flag": True}):
            pass
        attributes["more"] = "added"
    assert os.environ["TRACEPARENT"] == TRACEPARENT
    outer, inner = collector.find(name="outer"), collector.find(name="inner")
    assert (outer.trace, outer.parent, outer.is_error) == (TRACE, PARENT, False)
    assert (inner.trace, inner.parent) == (TRACE, outer.id)
    assert child_traceparent == f"00-{TRACE}-{outer.id}-01"
    assert before_ns <= outer.start_ns <= inner.start_ns <= inner.end_ns <= outer.end_ns <= time.time_ns()
    assert inner.attributes == {"number": 3, "share": 0.5, "flag": True}
    assert outer.attributes == {"text": "x" * traces.MAX_TEXT_CHARS, "more": "added"}
    assert outer.service == "leeway"


def test_error_marks_the_span_without_its_text(collector: Collector) -> None:
    with pytest.raises(ValueError, match="tweety"), record_span("step"):
        raise ValueError("tweety is a value of the data")
    assert collector.find(name="step").is_error
    assert collector.find(name="step").attributes == {"error.type": "ValueError"}
    assert b"tweety" not in b"".join(collector.bodies)


def test_standard_variables_set_the_service_and_the_headers(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/v1/traces")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a%20b,X-Other=c")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "night-shift")
    with record_span("step"):
        pass
    assert collector.find(name="step").service == "night-shift"
    assert (collector.headers[0]["X-Key"], collector.headers[0]["X-Other"]) == ("a b", "c")


@pytest.mark.parametrize(("name", "service"), [("", "day-shift"), ("night-shift", "night-shift")])
def test_attributes_of_the_resource_name_the_service_unless_it_has_a_variable_of_its_own(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, name: str, service: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/v1/traces")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=day-shift,team=rates")
    monkeypatch.setenv("OTEL_SERVICE_NAME", name)
    with record_span("step"):
        pass
    assert collector.find(name="step").service == service


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRACEPARENT", ""),
        ("TRACEPARENT", f"00-{TRACE}-{PARENT}-00"),
        ("TRACEPARENT", f"00-{'0' * 32}-{PARENT}-01"),
        ("TRACEPARENT", f"ff-{TRACE}-{PARENT}-01"),
        ("TRACEPARENT", "nonsense"),
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ],
)
def test_nothing_is_recorded_if_tracing_is_off(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    given_traceparent = os.environ["TRACEPARENT"]
    with record_span("step"):
        assert os.environ["TRACEPARENT"] == given_traceparent
    assert collector.spans == []


def test_collector_that_refuses_costs_no_step_its_result(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRACEPARENT", TRACEPARENT)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:tweety@127.0.0.1:9")
    for _ in range(3):
        with record_span("step"):
            pass
    (line,) = caplog.messages
    assert "127.0.0.1" in line
    assert "sends no more spans" in line
    assert "tweety" not in line


def test_collector_that_does_not_answer_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The listener accepts the connection and stays silent. The wait of the first span is bounded."""
    waits: list[float | None] = []
    join = threading.Thread.join
    monkeypatch.setattr(
        threading.Thread, "join", lambda thread, timeout=None: (waits.append(timeout), join(thread, timeout))[1]
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("TRACEPARENT", TRACEPARENT)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
        for _ in range(5):
            with record_span("step"):
                pass
    assert waits == [traces.SEND_TIMEOUT_S]
    (line,) = caplog.messages
    assert "sends no more spans" in line


@pytest.mark.parametrize("endpoint", ["file:///etc/passwd", "nonsense"])
def test_endpoint_that_is_not_http_is_not_opened(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, endpoint: str
) -> None:
    monkeypatch.setenv("TRACEPARENT", TRACEPARENT)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint)
    with record_span("step"):
        pass
    assert "ValueError" in caplog.text


CODE = """
import sys
from pipelines.system.traces import record_span
with record_span("step"):
    pass
print(sorted({name.split(".")[0] for name in sys.modules} & {"opentelemetry", "urllib3", "ssl", "http", "requests"}))
"""


@pytest.mark.parametrize(("traceparent", "modules"), [("", "[]"), (TRACEPARENT, "['http', 'ssl']")])
def test_modules_that_send_are_only_imported_to_send(traceparent: str, modules: str) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    env |= {"TRACEPARENT": traceparent} if traceparent else {}
    process = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == modules
